//! The text of values in keys and cache recipes. Builds and caches are found by a digest of that
//! text, so no release may change it: derived `Debug` output follows the names in the code, and
//! this text does not. This file covers plain data; a type with named fields or variants writes its
//! text where its key is computed.

use std::collections::BTreeMap;

use crate::digest::Sha256;
use crate::names::Soname;

/// A value with a text that is the same in every release.
pub trait Canonical {
    /// Appends the value's text to `text`.
    fn write(&self, text: &mut String);
}

/// Returns the canonical text of a value.
pub fn canonical(value: &(impl Canonical + ?Sized)) -> String {
    let mut text = String::new();
    value.write(&mut text);
    text
}

/// A word written without quotes: the name of one of several choices.
pub struct Word<'a>(pub &'a str);

impl Canonical for Word<'_> {
    fn write(&self, text: &mut String) {
        text.push_str(self.0);
    }
}

impl Canonical for str {
    fn write(&self, text: &mut String) {
        text.push('"');
        for c in self.chars() {
            match c {
                '"' | '\\' => text.extend(['\\', c]),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\t' => text.push_str("\\t"),
                '\0' => text.push_str("\\0"),
                c if c.is_control() => text.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
                c => text.push(c),
            }
        }
        text.push('"');
    }
}

impl Canonical for String {
    fn write(&self, text: &mut String) {
        self.as_str().write(text);
    }
}

impl Canonical for Soname {
    fn write(&self, text: &mut String) {
        text.push_str("Soname(");
        self.as_str().write(text);
        text.push(')');
    }
}

impl Canonical for Sha256 {
    fn write(&self, text: &mut String) {
        text.push_str(&format!("Sha256({self})"));
    }
}

macro_rules! displayed {
    ($($type:ty)*) => {$(
        impl Canonical for $type {
            fn write(&self, text: &mut String) {
                text.push_str(&self.to_string());
            }
        }
    )*};
}

displayed!(bool i64 u32 u64);

impl<T: Canonical + ?Sized> Canonical for &T {
    fn write(&self, text: &mut String) {
        (**self).write(text);
    }
}

impl<T: Canonical> Canonical for Option<T> {
    fn write(&self, text: &mut String) {
        match self {
            None => text.push_str("None"),
            Some(value) => {
                text.push_str("Some(");
                value.write(text);
                text.push(')');
            }
        }
    }
}

impl<T: Canonical> Canonical for [T] {
    fn write(&self, text: &mut String) {
        text.push('[');
        for (at, value) in self.iter().enumerate() {
            text.push_str(if at == 0 { "" } else { ", " });
            value.write(text);
        }
        text.push(']');
    }
}

impl<T: Canonical> Canonical for Vec<T> {
    fn write(&self, text: &mut String) {
        self.as_slice().write(text);
    }
}

impl<K: Canonical, V: Canonical> Canonical for BTreeMap<K, V> {
    fn write(&self, text: &mut String) {
        text.push('{');
        for (at, (key, value)) in self.iter().enumerate() {
            text.push_str(if at == 0 { "" } else { ", " });
            key.write(text);
            text.push_str(": ");
            value.write(text);
        }
        text.push('}');
    }
}

macro_rules! tuples {
    ($(($first:ident $($other:ident)*))*) => {$(
        impl<$first: Canonical, $($other: Canonical),*> Canonical for ($first, $($other),*) {
            #[expect(non_snake_case, reason = "a tuple's values are named like its types")]
            fn write(&self, text: &mut String) {
                let ($first, $($other),*) = self;
                text.push('(');
                $first.write(text);
                $(text.push_str(", "); $other.write(text);)*
                text.push(')');
            }
        }
    )*};
}

tuples!((A B) (A B C) (A B C D) (A B C D E));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_plain_data_is_stable() {
        let digest = Sha256::of_bytes("x");
        assert_eq!(canonical(&digest), format!("Sha256({digest})"));
        assert_eq!(
            canonical(&(true, -1_i64, 7_u32, u64::MAX)),
            "(true, -1, 7, 18446744073709551615)"
        );
        assert_eq!(canonical(&(Some("a"), None::<String>)), "(Some(\"a\"), None)");
        assert_eq!(canonical(&vec![(3_u32, 14_u32)]), "[(3, 14)]");
        assert_eq!(canonical(&Vec::<String>::new()), "[]");
        assert_eq!(
            canonical(&BTreeMap::from([("a", "1"), ("b", "2")])),
            "{\"a\": \"1\", \"b\": \"2\"}"
        );
        assert_eq!(canonical(&BTreeMap::<String, String>::new()), "{}");
        assert_eq!(canonical(&Some(Word("Runpath"))), "Some(Runpath)");
        assert_eq!(canonical(&Soname::new("liba.so.1")), "Soname(\"liba.so.1\")");
    }

    #[test]
    fn distinguishes_texts_with_quotes_and_control_characters() {
        assert_eq!(canonical("a\"b\\c\n\r\t\0'é\u{1b}"), "\"a\\\"b\\\\c\\n\\r\\t\\0'é\\u{1b}\"");
        assert_ne!(canonical(&["a\", \"b"][..]), canonical(&["a", "b"][..]));
    }
}
