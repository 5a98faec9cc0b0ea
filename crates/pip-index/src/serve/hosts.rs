//! The host names that the server answers to. A web page can point its own name to an address of
//! this machine (DNS rebinding): its scripts could then read an index that is only meant for this
//! machine.

use std::net::IpAddr;

#[derive(Debug)]
pub(super) struct Hosts {
    /// The names in addition to those of loopback; `None` accepts every name, because every machine
    /// that reaches the server may read the index.
    names: Option<Vec<String>>,
}

impl Hosts {
    /// Returns the names for a server that listens on this address.
    pub(super) fn new(listens: IpAddr, names: &[String]) -> Self {
        let names = || names.iter().map(|name| name.to_ascii_lowercase()).collect();
        Self { names: listens.is_loopback().then(names) }
    }

    /// Returns whether to answer a request for this host, with or without a port. Browsers always
    /// send one.
    pub(super) fn admits(&self, host: Option<&str>) -> bool {
        let (Some(names), Some(host)) = (&self.names, host) else { return true };
        let host = host.trim();
        let name = match host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => host.split(':').next().unwrap_or_default(),
        };
        let name = name.to_ascii_lowercase();
        let address = name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        address || name == "localhost" || names.contains(&name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_answers_only_to_its_names() {
        let hosts = Hosts::new("127.0.0.1".parse().unwrap(), &["Builder.local".to_owned()]);
        for good in [
            "localhost",
            "LOCALHOST:8000",
            "127.0.0.1:8000",
            "127.1.2.3",
            "[::1]:8000",
            "builder.LOCAL:1",
        ] {
            assert!(hosts.admits(Some(good)), "{good}");
        }
        assert!(hosts.admits(None));
        for bad in [
            "evil.example",
            "evil.example:8000",
            "localhost.evil.example",
            "192.0.2.7",
            "[2001:db8::1]",
            "",
        ] {
            assert!(!hosts.admits(Some(bad)), "{bad}");
        }
        assert!(Hosts::new("0.0.0.0".parse().unwrap(), &[]).admits(Some("evil.example")));
    }
}
