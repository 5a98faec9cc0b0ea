//! The check that every JSON document in these tests goes through.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::{Value, json};

use crate::common::Lab;
use crate::support::documents::{check, check_text};

fn is_refused(text: &str) -> bool {
    catch_unwind(AssertUnwindSafe(|| check_text(text))).is_err()
}

#[test]
fn refuses_documents_that_their_schema_does_not_allow() {
    let lab = Lab::copy_of("examples/quickstart");
    let plan: Value = serde_json::from_str(&lab.run(&["plan", "--json"]).exits(0).stdout).unwrap();
    assert_eq!(check(&plan), Some("rocmrpm/plan/2"));
    for (pointer, value) in [
        ("/schema", json!("rocmrpm/plan/1")),
        ("/stale", json!("one")),
        ("/steps/0/key", json!("abc")),
        ("/steps/0/plan", json!("wait")),
    ] {
        let mut other = plan.clone();
        *other.pointer_mut(pointer).unwrap() = value;
        assert!(is_refused(&other.to_string()), "{pointer}");
    }
    for pointer in ["", "/steps/0"] {
        let mut more = plan.clone();
        more.pointer_mut(pointer).unwrap()["surprise"] = json!(1);
        assert!(is_refused(&more.to_string()), "{pointer}: a key too many");
        let mut less = plan.clone();
        less.pointer_mut(pointer).unwrap().as_object_mut().unwrap().remove("stale").unwrap();
        assert!(is_refused(&less.to_string()), "{pointer}: a key too few");
    }
    assert!(!is_refused(&plan.to_string()));
}
