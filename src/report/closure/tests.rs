//! Tests how a closure looks on a terminal, in a browser and in JSON.

use super::*;
use crate::closure::diff::{MemberPlaces, diff};
use crate::closure::testing::{Sketch, sample};
use crate::closure::why::why;

fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

#[test]
fn text_lists_places_with_totals_and_reasons() {
    let (closure, ..) = sample();
    similar_asserts::assert_eq!(
        plain(&closure_text(&closure)),
        "demo  for fedora-43 with the pins of stable, not limited by date

  system      2    22.0 kB  provided by fedora-43
  rpm         2     9.0 kB  built as an RPM
  private     4    26.0 kB  installed in the private prefix
  dropped     1             left out
  all         9    57.0 kB

system
  numpy 2.3.4, typing-extensions 4.15.0

rpm
  from this stack: torch 2.11.0
  starlette 1.0

private
  NAME      VERSION      SIZE  REASON
  fastapi   0.165.0    7.0 kB  fedora-43 has python3-fastapi 0.115.0; demo requires fastapi>=0.165
  hub       2.0        3.0 kB  requires pydantic>=2.13, which is private
  pydantic  2.13.1     8.0 kB  fedora-43 has python3-pydantic 2.12.0~a1; fastapi 0.165.0 requires pydantic>=2.13 (and 1 more)
  xgrammar  0.1.9      8.0 kB  requires hub>=2, which is private

dropped
  NAME  WITHOUT IT     REASON
  ray   what ray does  it is for several machines
"
    );
}

#[test]
fn why_lists_the_chain_and_the_requirers() {
    let (closure, offers, rules) = sample();
    let text = |name| plain(&why_text(&closure, &why(&closure, &offers, &rules, name).unwrap()));
    similar_asserts::assert_eq!(
        text("pydantic"),
        "pydantic 2.13.1  private
  because    fedora-43 has python3-pydantic 2.12.0~a1; fastapi 0.165.0 requires pydantic>=2.13 (and 1 more)
  chain      demo requires fastapi>=0.165
             fastapi 0.165.0 requires pydantic>=2.13

  REQUIRED BY      PLACE    AS
  fastapi 0.165.0  private  pydantic>=2.13
  hub 2.0          private  pydantic>=2.13
"
    );
    let dropped = text("ray");
    for part in [
        "ray  dropped",
        "(decided in component.toml)",
        "without it what ray does",
        "demo requires ray[serve]>=2",
    ] {
        assert!(dropped.contains(part), "{part}: {dropped}");
    }
}

#[test]
fn json_contains_the_same_facts_as_the_text() {
    let (closure, offers, rules) = sample();
    let differs = ["pins/stable.requirements.lock".to_owned()];
    let extras = Extras { differs: &differs, ..Extras::default() };
    let document = serde_json::to_value(closure_json(&closure, extras)).unwrap();
    assert_eq!(document["schema"], "rocmrpm/closure/1");
    assert_eq!(document["totals"]["private"], serde_json::json!({ "members": 4, "bytes": 26000 }));
    let members = document["members"].as_array().unwrap();
    let of = |name: &str| members.iter().find(|member| member["name"] == name).unwrap();
    assert_eq!(of("torch")["made_by"], "torch");
    assert_eq!(of("numpy")["offer"]["evr"], "1:2.3.4");
    assert_eq!(of("ray")["version"], serde_json::Value::Null);
    assert_eq!(of("hub")["required_by"][0]["requirement"], "hub>=2");
    assert_eq!(of("hub")["chain"].as_array().unwrap().len(), 2);
    let why = why(&closure, &offers, &rules, "hub").unwrap();
    let document = serde_json::to_value(why_json(&closure, &why)).unwrap();
    assert_eq!(
        (&document["schema"], &document["place"]),
        (&"rocmrpm/closure-why/1".into(), &"private".into())
    );
}

#[test]
fn diff_is_grouped_by_kind() {
    let locked = |sketch: Sketch| -> Vec<_> {
        sketch.graph().nodes.into_values().map(|node| node.locked).collect()
    };
    let old =
        locked(Sketch::of(&[]).index("a", "1", &[]).index("b", "1", &[]).index("c", "1", &[]));
    let new = locked(Sketch::of(&[]).index("b", "2", &[]).own("c", "1", &[]).index("d", "1", &[]));
    let places = |place| MemberPlaces::from([("b".to_owned(), place)]);
    let differences =
        diff((&old, &places(MemberPlace::Private)), (&new, &places(MemberPlace::System)));
    similar_asserts::assert_eq!(
        plain(&diff_text(&differences)),
        "         NAME  BEFORE  AFTER                       PLACE
added    d             1
removed  a     1
up       b     1       2                           private -> system
changed  c     1       1 (now built by the stack)

4 differences: 1 added, 1 removed, 1 up, 1 changed
"
    );
    let document = serde_json::to_value(diff_json("old", "new", &differences)).unwrap();
    assert_eq!(document["differences"][1]["new_place"], "system");
    assert_eq!(plain(&diff_text(&[])), "no differences\n");
}

#[test]
fn page_has_every_member_and_escapes_untrusted_text() {
    let (mut closure, ..) = sample();
    let hub = closure.members.get_mut("hub").unwrap();
    let about = &mut hub.node.as_mut().unwrap().about;
    about.summary = "<script>alert(1)</script>\u{202e}".into();
    about.license = Some("MIT\" onclick=\"x".into());
    about.home = Some("javascript:alert(1)".into());
    hub.reason = "a & b".into();
    let page = closure_html(&closure);
    for name in closure.members.keys() {
        assert_eq!(page.matches(&format!("id=\"m-{name}\"")).count(), 1, "{name}");
    }
    // Every link within the page has a target.
    let (content, _) = page.split_once("<script>").unwrap();
    for link in content.split("href=\"#").skip(1) {
        let target = link.split('"').next().unwrap();
        assert!(page.contains(&format!("id=\"{target}\"")), "{target}");
    }
    assert_eq!(page.matches("<script").count(), 1, "only the script of the page itself");
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;\\u{202e}"));
    assert!(page.contains("MIT&quot; onclick=") && !page.contains("href=\"javascript"));
    assert!(!page.contains("src=") && !page.contains("@import") && !page.contains("url("));
    assert!(page.contains(
        "<a href=\"#top\">demo</a></li><li><a class=\"to private\" href=\"#m-fastapi\">"
    ));
}
