//! Renders a closure as a self-contained HTML page: places as colors and symbols, sizes as areas
//! and bars, and the chain of requirements of each member. Links and `<details>` work without the
//! script, which adds a filter by name.

mod treemap;

use std::collections::BTreeMap;

use base64::prelude::{BASE64_STANDARD, Engine};

use super::{Group, groups, installed, maker, named, size, version};
use crate::closure::why::chains;
use crate::closure::{Closure, Edge, Member};
use crate::digest::Sha256;
use crate::html::{PAGE_STYLE, capital, escape};
use crate::report::{count, human_size};
use crate::workspace::MemberPlace;

/// The style of this page, in addition to the common style of all pages.
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The width of the size chart divided by its height.
const RATIO: f64 = 2.2;

/// The order of the sections: those with work to do come first.
const SECTIONS: [MemberPlace; 4] =
    [MemberPlace::Private, MemberPlace::Rpm, MemberPlace::Dropped, MemberPlace::System];

/// The data of a page. `wants` and `wanted` have the requirements by either end.
struct Page<'c> {
    closure: &'c Closure,
    groups: Vec<Group<'c>>,
    chains: BTreeMap<&'c str, (Vec<&'c Edge>, u64)>,
    wants: BTreeMap<&'c str, Vec<&'c Edge>>,
    wanted: BTreeMap<&'c str, Vec<&'c Edge>>,
    /// The largest size of a member in bytes.
    most: u64,
}

/// Returns a closure as a self-contained HTML page.
pub fn closure_html(closure: &Closure) -> String {
    let page = Page {
        closure,
        groups: groups(closure),
        chains: chains(closure),
        wants: closure.graph.by_requirer(),
        wanted: closure.graph.by_required(),
        most: closure.members.values().filter_map(size).max().unwrap_or(0).max(1),
    };
    let title = escape(closure.graph.component.as_str());
    // The digest of the only script that a browser may run (CSP level 2, section 7.17).
    let script = BASE64_STANDARD.encode(Sha256::of_bytes(SCRIPT).as_bytes());
    let sections: String = SECTIONS.iter().map(|place| page.section(*place)).collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'sha256-{script}'\">\n\
         <title>{title} - rocmrpm closure</title>\n<style>\n{PAGE_STYLE}{STYLE}</style>\n</head>\n<body>\n{}\
         <main id=\"top\">\n{}{}{}{sections}\
         <p id=\"nothing\" class=\"lead\" hidden>No member matches.</p>\n\
         <footer>Written by rocmrpm {}. <code>rocmrpm closure why NAME</code> shows the same for one member.</footer>\n\
         </main>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
        signs(),
        page.head(),
        page.drawing(),
        "<search class=\"filter\" hidden><label for=\"find\">Find</label>\
         <input id=\"find\" type=\"search\" placeholder=\"name or keyword\" autocomplete=\"off\">\
         <output id=\"found\" for=\"find\"></output></search>\n",
        env!("CARGO_PKG_VERSION"),
    )
}

impl<'c> Page<'c> {
    fn group(&self, place: MemberPlace) -> Option<&Group<'c>> {
        self.groups.iter().find(|group| group.place == place)
    }

    /// Renders the title and the places, with their totals and switches that hide them.
    fn head(&self) -> String {
        let closure = self.closure;
        let members = closure.members.len();
        let component = escape(closure.graph.component.as_str());
        let chroot = escape(&closure.chroot);
        let mut tiles = String::new();
        for group in &self.groups {
            let name = group.place.name();
            let size = if group.bytes == 0 { "&nbsp;".to_owned() } else { human_size(group.bytes) };
            tiles.push_str(&format!(
                "<label class=\"tile {name}\"><input type=\"checkbox\" id=\"show-{name}\" checked>\
                 <span class=\"name\">{}{name}</span><strong>{}</strong><span class=\"quiet\">{size}</span>\
                 <span class=\"what\">{}</span></label>\n",
                mark(group.place),
                group.members.len(),
                explained(group.place, &chroot),
            ));
        }
        let bar: String = self
            .groups
            .iter()
            .filter(|group| !group.members.is_empty())
            .map(|group| {
                let part = group.members.len() as f64 * 100.0 / members.max(1) as f64;
                let name = group.place.name();
                format!(
                    "<span class=\"part {name}\" style=\"width:{part:.2}%\" title=\"{name}: {}\"></span>",
                    group.members.len()
                )
            })
            .collect();
        format!(
            "<p class=\"kicker\">Python closure</p>\n<h1>{component} on {chroot}</h1>\n\
             <p class=\"lead\">Its requirements at run time, with the pins of {}: {}, \
             each from one of four places.</p>\n\
             <div class=\"whole\" role=\"img\" aria-label=\"members by place\">{bar}</div>\n\
             <div class=\"tiles\" role=\"group\" aria-label=\"places to show\">\n{tiles}</div>\n",
            escape(&closure.pins),
            count(members, "distribution"),
        )
    }

    /// Renders sizes as areas, each a link to its member.
    fn drawing(&self) -> String {
        let mut sized: Vec<(u64, &Member)> = self
            .closure
            .members
            .values()
            .filter_map(|member| Some((size(member).filter(|bytes| *bytes > 0)?, member)))
            .collect();
        if sized.is_empty() {
            return String::new();
        }
        sized.sort_by_key(|(bytes, member)| (std::cmp::Reverse(*bytes), &member.name));
        let sizes: Vec<f64> = sized.iter().map(|(bytes, _)| *bytes as f64).collect();
        let total: u64 = sized.iter().map(|(bytes, _)| bytes).sum();
        let mut cells = String::new();
        for ((bytes, member), area) in sized.iter().zip(treemap::areas(&sizes, RATIO)) {
            let (name, place) = (escape(&member.name), member.place.name());
            // Text that does not fit is only in the title.
            let text = match (area.width, area.height) {
                (w, h) if w > 0.05 && h > 0.09 => {
                    format!("<span>{name}</span><small>{}</small>", human_size(*bytes))
                }
                (w, h) if w > 0.035 && h > 0.045 => format!("<span>{name}</span>"),
                _ => String::new(),
            };
            cells.push_str(&format!(
                "<a class=\"cell {place}\" href=\"#m-{name}\" title=\"{name}: {}, {place}\" \
                 aria-label=\"{name}, {place}, {}\" \
                 style=\"left:{:.3}%;top:{:.3}%;width:{:.3}%;height:{:.3}%\">{text}</a>\n",
                human_size(*bytes),
                human_size(*bytes),
                area.x * 100.0,
                area.y * 100.0,
                area.width * 100.0,
                area.height * 100.0,
            ));
        }
        format!(
            "<section>\n<h2>Sizes</h2>\n<p class=\"lead\">Each area shows the size of a wheel, {} in total; \
             members that the stack itself builds are not included.</p>\n\
             <nav class=\"map\" aria-label=\"members by size\">\n{cells}</nav>\n</section>\n",
            human_size(total)
        )
    }

    /// Renders the members of a place, each collapsed.
    fn section(&self, place: MemberPlace) -> String {
        let Some(group) = self.group(place).filter(|group| !group.members.is_empty()) else {
            return String::new();
        };
        let name = place.name();
        let lead = match place {
            MemberPlace::Private => {
                "The release has an unsuitable version, or they require a private member. They are \
                               installed in the private prefix until a later release has a suitable version."
            }
            MemberPlace::Rpm => {
                "The release has no package of them, so each gets an RPM of its own."
            }
            MemberPlace::Dropped => "A packager decided that the component works without them.",
            MemberPlace::System => "The release's own packages satisfy all requirements.",
        };
        let members: String = group.members.iter().map(|member| self.member(member)).collect();
        format!(
            "<section class=\"members {name}\">\n<h2 id=\"place-{name}\">{}{} \
             <span class=\"quiet\">{}</span></h2>\n<p class=\"lead\">{lead}</p>\n<div>\n{members}</div>\n</section>\n",
            mark(place),
            capital(name),
            group.members.len(),
        )
    }

    fn member(&self, member: &Member) -> String {
        let name = escape(&member.name);
        let bytes = size(member);
        let size = bytes.map(human_size).unwrap_or_default();
        let bar = bytes.map_or(String::new(), |bytes| {
            let width = bytes as f64 * 100.0 / self.most as f64;
            format!("<span class=\"bar\" style=\"width:{width:.2}%\"></span>")
        });
        let plain = member.place == MemberPlace::System || member.place == MemberPlace::Rpm;
        let why = match (&member.without, maker(member)) {
            (Some(without), _) => format!("without it: {without}"),
            (None, Some(_)) => member.reason.clone(),
            (None, None) if plain && !member.decided => {
                member.node.as_ref().map(|node| node.about.summary.clone()).unwrap_or_default()
            }
            (None, None) => member.reason.clone(),
        };
        format!(
            "<details class=\"member\"><summary><span class=\"mono name\">{name}</span>\
             <span class=\"mono version\">{}</span><span class=\"track\">{bar}</span>\
             <span class=\"num\">{size}</span><span class=\"why\">{}</span></summary>\n{}</details>\n",
            escape(&installed(member)),
            escape(&why),
            self.details(member),
        )
    }

    fn details(&self, member: &Member) -> String {
        let mut pairs = String::new();
        let mut add = |name: &str, html: String| {
            if !html.is_empty() {
                pairs.push_str(&format!("<dt>{name}</dt><dd>{html}</dd>\n"));
            }
        };
        let decided = if member.decided { " <span class=\"tag\">decided</span>" } else { "" };
        add("Why", format!("{}{decided}", escape(&capital(&member.reason))));
        add("Without it", member.without.as_deref().map(escape).unwrap_or_default());
        if let Some((chain, ways)) = self.chains.get(member.name.as_str()) {
            let root =
                format!("<li><a href=\"#top\">{}</a></li>", escape(&self.closure.graph.root));
            let step = |edge: &&Edge| {
                let wanted = edge.text.strip_prefix(edge.to.as_str()).unwrap_or(&edge.text);
                format!(
                    "<li>{}<small class=\"mono\">{}</small></li>",
                    self.link(&edge.to),
                    escape(wanted)
                )
            };
            let steps: String = chain.iter().map(step).collect();
            let more = match ways.saturating_sub(1) {
                0 => String::new(),
                1 => "<span class=\"quiet\">1 other chain is as short</span>".to_owned(),
                n => format!("<span class=\"quiet\">{n} other chains are as short</span>"),
            };
            add("Chain", format!("<ol class=\"chain\">{root}{steps}</ol>{more}"));
        }
        let list = |edges: Option<&Vec<&Edge>>, end: fn(&Edge) -> &str| {
            let items: String = edges
                .into_iter()
                .flatten()
                .map(|edge| {
                    format!(
                        "<li>{} <small class=\"mono\">{}</small></li>",
                        self.link(end(edge)),
                        escape(&edge.text)
                    )
                })
                .collect();
            if items.is_empty() { items } else { format!("<ul class=\"ends\">{items}</ul>") }
        };
        add("Required by", list(self.wanted.get(member.name.as_str()), |edge| &edge.from));
        add(
            "Requires",
            list(self.wants.get(member.name.as_str()).filter(|_| member.node.is_some()), |edge| {
                &edge.to
            }),
        );
        let has = member.offer.as_ref().map(ToString::to_string).unwrap_or_default();
        add("Release has", escape(&has));
        if member.place == MemberPlace::System && version(member) != installed(member) {
            add("Locked", escape(&version(member)));
        }
        if let Some(node) = &member.node {
            add("Summary", escape(&node.about.summary));
            add("License", node.about.license.as_deref().map(escape).unwrap_or_default());
            add("Home", node.about.home.as_deref().map(outside).unwrap_or_default());
        }
        format!(
            "<div id=\"m-{}\" class=\"anchor\"><dl class=\"pairs\">{pairs}</dl></div>",
            escape(&member.name)
        )
    }

    /// Renders a link to a member, with the symbol of its place.
    fn link(&self, name: &str) -> String {
        let shown = escape(&named(self.closure, name));
        match self.closure.members.get(name) {
            Some(member) => format!(
                "<a class=\"to {}\" href=\"#m-{}\">{}{shown}</a>",
                member.place.name(),
                escape(name),
                mark(member.place)
            ),
            None => format!("<a href=\"#top\">{shown}</a>"),
        }
    }
}

/// Renders an untrusted URL, as a link only if it leads to a web page.
fn outside(url: &str) -> String {
    let shown = escape(url);
    match url.starts_with("https://") || url.starts_with("http://") {
        true => format!("<a href=\"{shown}\" rel=\"noreferrer\">{shown}</a>"),
        false => shown,
    }
}

fn explained(place: MemberPlace, chroot: &str) -> String {
    match place {
        MemberPlace::System => format!("{chroot} has a suitable version"),
        MemberPlace::Rpm => format!("{chroot} has none: built as an RPM"),
        MemberPlace::Private => {
            format!("{chroot} has an unsuitable version: installed in the private prefix")
        }
        MemberPlace::Dropped => "left out: the component works without it".to_owned(),
    }
}

/// Renders the symbol of a place, as drawn by `signs`.
fn mark(place: MemberPlace) -> String {
    let name = place.name();
    format!(
        "<svg class=\"mark {name}\" width=\"16\" height=\"16\" role=\"img\" aria-label=\"{name}\">\
         <use href=\"#sign-{name}\"/></svg>"
    )
}

/// Draws a symbol for each place that is recognizable without color: a check mark, a box, a lock
/// and a cross.
fn signs() -> String {
    let sign = |place: MemberPlace| {
        let shape = match place {
            MemberPlace::System => {
                "<circle cx=\"8\" cy=\"8\" r=\"6.5\"/><path d=\"M5 8.3l2.2 2.2L11.2 6\"/>"
            }
            MemberPlace::Rpm => "<path d=\"M2 5l6-3l6 3v6l-6 3l-6-3zM2 5l6 3l6-3M8 8v6\"/>",
            MemberPlace::Private => {
                "<rect x=\"3\" y=\"7\" width=\"10\" height=\"7\" rx=\"1\"/><path d=\"M5 7V5a3 3 0 0 1 6 0v2\"/>"
            }
            MemberPlace::Dropped => {
                "<circle cx=\"8\" cy=\"8\" r=\"6.5\" stroke-dasharray=\"3 2\"/>\
                 <path d=\"M5.5 5.5l5 5M10.5 5.5l-5 5\"/>"
            }
        };
        format!(
            "<symbol id=\"sign-{}\" viewBox=\"0 0 16 16\" fill=\"none\" stroke=\"currentColor\" \
             stroke-width=\"1.4\" stroke-linejoin=\"round\">{shape}</symbol>",
            place.name()
        )
    };
    let signs: String = MemberPlace::ALL.map(sign).concat();
    format!(
        "<svg width=\"0\" height=\"0\" aria-hidden=\"true\" style=\"position:absolute\">{signs}</svg>\n"
    )
}
