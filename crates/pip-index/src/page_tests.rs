//! Tests round trips of pages, and pages that rocmrpm did not write.

use super::*;

const NAME: &str = "demo-tool-1!1.0+rocm7.14-py3-none-any.whl";

fn file(name: &str) -> File {
    File {
        name: name.into(),
        sha256: Sha256::of_bytes("wheel"),
        size: 7,
        upload_time: Timestamp::from_second(1_700_000_000).unwrap(),
        requires_python: Some(">=3.9,<4 \"'&".into()),
        metadata: Some(Sha256::of_bytes("metadata")),
        plain_name: true,
        yanked: None,
        foreign: false,
    }
}

fn project() -> Project {
    let name = "demo_tool-1.0+rocm7.14-py3-none-any.whl";
    let mut project = Project::new("demo-tool");
    project.files.push(file("demo_tool-1.10-py3-none-any.whl"));
    project.files.push(File {
        yanked: Some("it <breaks>".into()),
        ..file("demo_tool-1.9-py3-none-any.whl")
    });
    project.files.push(File { plain_name: false, yanked: Some(String::new()), ..file(name) });
    let old = file("demo_tool-1.9-py2-none-any.whl");
    project.files.push(File { requires_python: None, foreign: true, ..old });
    project.sort();
    project.tracks = vec!["https://host/simple/demo-tool/?a&b".into()];
    project
}

const STABLE: View = View::Channel("stable");

#[test]
fn pages_round_trip() {
    for view in [View::Local, STABLE] {
        let project = project();
        let json = project.json(view);
        assert_eq!(
            Project::from_json(json.as_bytes(), "page", view, "demo-tool").unwrap(),
            project
        );
    }
    let root = Root(BTreeSet::from(["a".into(), "b-c".into()]));
    assert_eq!(Root::from_json(root.json().as_bytes(), "root").unwrap(), root);
    assert!(root.html().contains("<a href=\"b-c/\">b-c</a>"));
}

#[test]
fn writes_json_of_the_peps() {
    let json: serde_json::Value = serde_json::from_str(&project().json(STABLE)).unwrap();
    assert_eq!(json["meta"]["api-version"], "1.2");
    assert_eq!(json["meta"]["tracks"][0], "https://host/simple/demo-tool/?a&b");
    assert_eq!(json["versions"], serde_json::json!(["1.0+rocm7.14", "1.9", "1.10"]));
    let [labelled, old, yanked, last] = [0, 1, 2, 3].map(|at| &json["files"][at]);
    assert_eq!(
        labelled["url"],
        "../../../packages/demo-tool/demo_tool-1.0%2Brocm7.14-py3-none-any.whl"
    );
    assert_eq!(labelled["yanked"], true);
    assert_eq!(labelled["core-metadata"]["sha256"], Sha256::of_bytes("metadata").to_string());
    assert!(last.get("dist-info-metadata").is_none(), "pip 23.0 would stop with a TypeError");
    assert!(labelled.get("_plain-name").is_none() && last["_plain-name"] == true);
    assert_eq!(last["upload-time"], "2023-11-14T22:13:20Z");
    assert_eq!(
        (&last["size"], &last["hashes"]["sha256"]),
        (&7.into(), &Sha256::of_bytes("wheel").to_string().into())
    );
    assert_eq!(last["requires-python"], ">=3.9,<4 \"'&");
    assert!(old["_foreign"] == true && last.get("_foreign").is_none());
    assert!(last.get("yanked").is_none() && old.get("requires-python").is_none());
    assert_eq!(yanked["yanked"], "it <breaks>");
}

#[test]
fn writes_html_of_the_peps() {
    let page = project().html(View::Local);
    let (wheel, metadata) = (Sha256::of_bytes("wheel"), Sha256::of_bytes("metadata"));
    for expected in [
        "<meta name=\"pypi:repository-version\" content=\"1.2\">".to_owned(),
        "<meta name=\"pypi:tracks\" content=\"https://host/simple/demo-tool/?a&amp;b\">".into(),
        format!(
            "<a href=\"../../packages/demo-tool/demo_tool-1.0%2Brocm7.14-py3-none-any.whl#sha256={wheel}\" \
             data-requires-python=\"&gt;=3.9,&lt;4 &quot;&#39;&amp;\" data-core-metadata=\"sha256={metadata}\" \
             data-yanked=\"\">demo_tool-1.0+rocm7.14-py3-none-any.whl</a>"
        ),
        format!(
            "data-core-metadata=\"sha256={metadata}\" data-dist-info-metadata=\"sha256={metadata}\" \
             data-yanked=\"it &lt;breaks&gt;\">demo_tool-1.9-py3"
        ),
    ] {
        assert!(page.contains(&expected), "{expected} is not in {page}");
    }
    let epoch = Project { files: vec![file(NAME)], ..Project::new("demo") }.html(STABLE);
    assert!(
        epoch.contains("href=\"../../../packages/demo/demo-tool-1%211.0%2Brocm7.14-py3"),
        "{epoch}"
    );
}

#[test]
fn rejects_foreign_pages() {
    let json = project().json(View::Local);
    let digest = Sha256::of_bytes("metadata").to_string();
    for (expected, text) in [
        ("EOF", json[..json.len() / 2].to_owned()),
        ("api-version is `1.4`", json.replace("\"1.2\"", "\"1.4\"")),
        ("unknown field `_last-serial`", json.replace("\"name\":", "\"_last-serial\":1,\"name\":")),
        ("unknown field `gpg-sig`", json.replacen("\"size\":", "\"gpg-sig\":true,\"size\":", 1)),
        ("unknown field `md5`", json.replacen("\"sha256\":", "\"md5\":\"\",\"sha256\":", 1)),
        ("it is the page of `other`", json.replace("\"name\":\"demo-tool\"", "\"name\":\"other\"")),
        ("is at `../../../etc", json.replace("../../packages", "../../../etc")),
        ("its list of versions", json.replace("\"1.9\",", "")),
        ("not a time", json.replace("2023-11-14", "yesterday")),
        ("-py3-none-any.whl` twice", json.replace("-1.9-py2-", "-1.9-py3-")),
        (
            "unknown field `dist-info-metadata`",
            json.replacen("\"size\":", "\"dist-info-metadata\":true,\"size\":", 1),
        ),
        ("not a SHA-256", json.replace(&digest, "0")),
        ("`\\u{1b}[2J`", json.replace("\"1.2\"", "\"\\u001b[2J\"")),
    ] {
        let error = Project::from_json(text.as_bytes(), "a/index.json", View::Local, "demo-tool")
            .unwrap_err();
        let shown = error.to_string();
        assert!(
            shown.contains("a/index.json") && shown.contains(expected),
            "expected {expected}: {shown}"
        );
    }
    let channel =
        Project::from_json(json.as_bytes(), "p", STABLE, "demo-tool").unwrap_err().to_string();
    assert!(channel.contains("expected `../../../packages/demo-tool/"), "{channel}");
    let root = Root(BTreeSet::from(["a".into()])).json();
    for (expected, text) in
        [("`A`", root.replace("\"a\"", "\"A\"")), ("unknown field", root.replace("projects", "x"))]
    {
        let error = Root::from_json(text.as_bytes(), "r/index.json").unwrap_err().to_string();
        assert!(error.contains("r/index.json") && error.contains(expected), "{error}");
    }
}
