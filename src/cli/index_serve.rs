//! `rocmrpm index serve`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use super::{CommandResult, args, context};
use crate::index::serve::{self, Served};
use crate::process;
use crate::report::{Shell, Style, human_size, human_time};
use crate::text::{PATH, percent_encode, visible};

/// The maximum number of distributions in the suggested commands.
const MAX_NAMED: usize = 5;

pub(super) fn run(args: &args::IndexServe, dir: &Path, shell: &Shell) -> CommandResult {
    let root = match &args.dir {
        Some(folder) => folder.clone(),
        None => context::workspace(dir, &args.choice, &[])?.build_dir().join("index"),
    };
    let views = serve::views(&root)?;
    let listener = serve::listen(args.address, args.port)?;
    let address = listener.local_addr().unwrap_or(SocketAddr::new(args.address, args.port));
    let near = SocketAddr::new(reachable(address.ip()), address.port());
    let urls: Vec<String> =
        views.iter().map(|view| format!("http://{near}/{}", percent_encode(view, PATH))).collect();
    for url in &urls {
        shell.data(url)?;
    }
    if !address.ip().is_loopback() {
        let whom = if address.ip().is_unspecified() {
            "all addresses of this machine".into()
        } else {
            address.ip().to_string()
        };
        shell.warning(format!(
            "listening on {whom}: anyone who can connect can read the index, without encryption"
        ));
    }
    shell.status(Style::Good, "Serving", format!("{}, until Ctrl-C", root.display()));
    let names = distributions(&root.join(&views[0]));
    let trusted = if near.ip().is_loopback() {
        String::new()
    } else {
        format!(" --trusted-host {}", near.ip())
    };
    shell.talk(format!("  pip install --index-url {}{trusted} {names}", urls[0]));
    shell.talk(format!("  uv pip install --default-index {} {names}", urls[0]));
    let log = |served: &Served| show(shell, served);
    serve::serve(&listener, &root, &args.allow_host, &log, &process::stop_requested)?;
    shell.status(Style::Good, "Stopped", "serving");
    Ok(0)
}

/// Returns an address for reaching a server on this machine that listens on the given one.
fn reachable(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(address) if address.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(address) if address.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        address => address,
    }
}

/// Returns the names of some distributions, separated by spaces, for an install command.
fn distributions(view: &Path) -> String {
    let entries = std::fs::read_dir(view).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.path().is_dir())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| crate::wheel::normalized(name).is_some_and(|normalized| normalized == *name))
        .collect();
    names.sort();
    names.truncate(MAX_NAMED);
    if names.is_empty() { "NAME".into() } else { names.join(" ") }
}

/// Prints a line about a request: the request, the status and the answer.
fn show(shell: &Shell, served: &Served) {
    let style = match served.status {
        ..400 => Style::Good,
        400..500 => Style::Warning,
        _ => Style::Bad,
    };
    let (method, target) = match served.method.as_str() {
        "" => ("?", "invalid request".to_owned()),
        method => (method, visible(&served.target)),
    };
    let mut facts = vec![human_size(served.bytes)];
    if !served.media_type.is_empty() && served.status < 300 {
        facts.push(served.media_type.clone());
    }
    if served.took.as_secs() > 0 {
        facts.push(human_time(served.took.as_secs_f64()));
    }
    if !served.complete {
        facts.push("aborted".into());
    }
    if !served.client.ip().is_loopback() {
        facts.push(format!("to {}", served.client.ip()));
    }
    let details = Style::Dim.paint(format!("({})", facts.join(", ")));
    shell.status(
        style,
        &served.status.to_string(),
        format!("{} {target} {details}", visible(method)),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_on_all_addresses_are_reachable_on_loopback() {
        for (listens, reached) in
            [("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("192.0.2.7", "192.0.2.7")]
        {
            assert_eq!(reachable(listens.parse().unwrap()), reached.parse::<IpAddr>().unwrap());
        }
    }
}
