//! JSON documents: each one names its schema, and the schema is generated from the struct. The
//! documents themselves are defined where they are written.

/// A JSON document that rocmrpm prints or writes. Its key `schema` holds [`Document::SCHEMA`].
pub trait Document: serde::Serialize {
    /// The name and number of its schema, such as `rocmrpm/plan/2`. The number increases when a key
    /// is renamed, removed, or changes its meaning.
    const SCHEMA: &'static str;
}

/// Implements `JsonSchema` for a type that is serialized as text: a string with these keywords.
#[macro_export]
macro_rules! text_schema {
    ($type:ident, $keywords:tt) => {
        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let mut schema = schemars::json_schema!($keywords);
                schema.insert("type".into(), "string".into());
                schema
            }
        }
    };
}

#[cfg(feature = "schema")]
pub use schema::{file_name, schema_of};

#[cfg(feature = "schema")]
mod schema {
    use schemars::JsonSchema;
    use schemars::generate::SchemaSettings;
    use serde_json::{Map, Value, json};

    use super::Document;

    /// Returns the name of a document's schema file in `docs/schemas/`: `plan-2.schema.json` for
    /// `rocmrpm/plan/2`.
    pub fn file_name(schema: &str) -> String {
        format!("{}.schema.json", schema.trim_start_matches("rocmrpm/").replace('/', "-"))
    }

    /// Returns the JSON Schema of a document. Objects allow only the keys of the struct.
    pub fn schema_of<D: Document + JsonSchema>() -> Value {
        let settings = SchemaSettings::draft2020_12().for_serialize();
        let mut schema = settings.into_generator().into_root_schema_for::<D>().to_value();
        tidy(&mut schema, true);
        schema["$id"] = json!(format!("urn:{}", D::SCHEMA.replace('/', ":")));
        schema["title"] = json!(D::SCHEMA);
        schema["properties"]["schema"] =
            json!({"description": "The name and number of this schema.", "const": D::SCHEMA});
        schema
    }

    /// Disallows additional keys in objects, and turns rustdoc notation into plain text. `whole` is
    /// false for a part of an object whose other keys are defined elsewhere.
    fn tidy(schema: &mut Value, whole: bool) {
        let Value::Object(object) = schema else { return };
        if let Some(Value::String(text)) = object.get_mut("description") {
            *text = plain(text);
        }
        let composed = ["oneOf", "anyOf", "allOf"].iter().any(|key| object.contains_key(*key));
        if object.contains_key("properties")
            && whole
            && !object.contains_key("additionalProperties")
        {
            let key = if composed { "unevaluatedProperties" } else { "additionalProperties" };
            object.insert(key.into(), json!(false));
        }
        let parts_are_whole = whole && !object.contains_key("properties");
        for (key, below) in object.iter_mut() {
            match (key.as_str(), below) {
                ("properties" | "$defs", Value::Object(named)) => tidy_all(named),
                ("oneOf" | "anyOf" | "allOf", Value::Array(parts)) => {
                    parts.iter_mut().for_each(|part| tidy(part, parts_are_whole));
                }
                ("prefixItems", Value::Array(items)) => {
                    items.iter_mut().for_each(|item| tidy(item, true))
                }
                ("items" | "additionalProperties", below) => tidy(below, true),
                _ => {}
            }
        }
    }

    fn tidy_all(named: &mut Map<String, Value>) {
        named.values_mut().for_each(|below| tidy(below, true));
    }

    /// Turns a doc comment into a description: one paragraph per line, `null` for `None`, no links.
    fn plain(comment: &str) -> String {
        let paragraphs = comment.split("\n\n").map(|paragraph| paragraph.replace('\n', " "));
        let text = paragraphs.collect::<Vec<_>>().join("\n");
        text.replace("`None`", "null").replace("[`", "`").replace("`]", "`")
    }
}
