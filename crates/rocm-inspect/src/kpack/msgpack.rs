//! Reads a sequence of MessagePack values from untrusted bytes: without allocation or recursion,
//! and every error has an offset. It does not interpret the values. Source of the format: the
//! MessagePack specification.

use rmp::Marker;
use rmp::decode;

use crate::bundle::Broken;

/// Bytes with a read position.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Returns how many bytes were read.
    pub(super) fn at(&self) -> u64 {
        self.at as u64
    }

    /// Returns how many bytes are left.
    pub(super) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Reads a map's header and returns the declared number of pairs.
    pub(super) fn map(&mut self, what: &str) -> Result<u32, Broken> {
        self.value(what, "map", |rest| decode::read_map_len(rest).ok())
    }

    /// Reads an array's header and returns the declared number of values.
    pub(super) fn array(&mut self, what: &str) -> Result<u32, Broken> {
        self.value(what, "array", |rest| decode::read_array_len(rest).ok())
    }

    pub(super) fn number(&mut self, what: &str) -> Result<u64, Broken> {
        self.value(what, "number", |rest| decode::read_int(rest).ok())
    }

    pub(super) fn text(&mut self, what: &str) -> Result<&'a str, Broken> {
        self.value(what, "text", |rest| {
            let length = decode::read_str_len(rest).ok()? as usize;
            let text = rest.get(..length)?;
            *rest = &rest[length..];
            str::from_utf8(text).ok()
        })
    }

    /// Skips one value of any kind, including nested values.
    pub(super) fn skip(&mut self) -> Result<(), Broken> {
        // Every iteration reads at least one byte, so a huge count is harmless.
        let mut pending = 1_u64;
        while pending > 0 {
            let inside = self.value("a value", "complete value", skip_one)?;
            pending = (pending - 1).saturating_add(inside);
        }
        Ok(())
    }

    fn value<T>(
        &mut self,
        what: &str,
        kind: &str,
        read: impl FnOnce(&mut &'a [u8]) -> Option<T>,
    ) -> Result<T, Broken> {
        let mut rest = &self.bytes[self.at..];
        let Some(value) = read(&mut rest) else {
            return Err(Broken::new(self.at(), format!("has no {kind} where {what} should be")));
        };
        self.at = self.bytes.len() - rest.len();
        Ok(value)
    }
}

/// Skips a value without its nested values, and returns how many these are.
fn skip_one(rest: &mut &[u8]) -> Option<u64> {
    let mut ahead = *rest;
    let marker = decode::read_marker(&mut ahead).ok()?;
    let inside = match marker {
        Marker::FixMap(_) | Marker::Map16 | Marker::Map32 => {
            return decode::read_map_len(rest).ok().map(|pairs| u64::from(pairs) * 2);
        }
        Marker::FixArray(_) | Marker::Array16 | Marker::Array32 => {
            return decode::read_array_len(rest).ok().map(u64::from);
        }
        Marker::FixStr(_) | Marker::Str8 | Marker::Str16 | Marker::Str32 => {
            decode::read_str_len(rest).ok()? as usize
        }
        Marker::Bin8 | Marker::Bin16 | Marker::Bin32 => decode::read_bin_len(rest).ok()? as usize,
        Marker::Ext8
        | Marker::Ext16
        | Marker::Ext32
        | Marker::FixExt1
        | Marker::FixExt2
        | Marker::FixExt4
        | Marker::FixExt8
        | Marker::FixExt16 => decode::read_ext_meta(rest).ok()?.size as usize,
        scalar => {
            *rest = ahead;
            match scalar {
                Marker::Reserved => return None,
                Marker::U8 | Marker::I8 => 1,
                Marker::U16 | Marker::I16 => 2,
                Marker::U32 | Marker::I32 | Marker::F32 => 4,
                Marker::U64 | Marker::I64 | Marker::F64 => 8,
                _ => 0,
            }
        }
    };
    *rest = rest.get(inside..)?;
    Some(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skips_values_of_every_kind() {
        // Source of the bytes: the MessagePack specification's table of formats.
        let values: [&[u8]; 14] = [
            b"\x05",
            b"\xe0",
            b"\xc0",
            b"\xc3",
            b"\xa2ab",
            b"\xd9\x01x",
            b"\xc4\x02ab",
            b"\xd6\x01abcd",
            b"\xc7\x03\x01abc",
            b"\xcb12345678",
            b"\xcd12",
            b"\x92\x01\x91\xc0",
            b"\x82\x01\x02\xa1a\x80",
            b"\xdc\x00\x01\xdf\x00\x00\x00\x01\x01\x02",
        ];
        for value in values {
            let bytes = [value, &[7]].concat();
            let mut reader = Reader::new(&bytes);
            assert!(reader.skip().is_ok(), "{value:02x?}");
            assert_eq!(reader.number("seven").ok(), Some(7), "{value:02x?}");
            for length in 0..value.len() {
                assert!(Reader::new(&value[..length]).skip().is_err(), "{value:02x?} {length}");
            }
        }
        assert!(Reader::new(b"\xc1").skip().is_err());
    }

    #[test]
    fn rejects_huge_and_deep_values() {
        assert!(Reader::new(b"\xdf\xff\xff\xff\xff\x01").skip().is_err());
        assert!(Reader::new(b"\xc6\xff\xff\xff\xff\x01").skip().is_err());
        let deep = vec![0x91; 1 << 20];
        let broken = Reader::new(&deep).skip().err().unwrap();
        assert_eq!(broken.at, 1 << 20);
        assert!(Reader::new(b"\xdb\xff\xff\xff\xffa").text("a name").is_err());
        let wrong = Reader::new(b"\x80").text("a name").err().unwrap();
        assert_eq!((wrong.at, wrong.what.as_str()), (0, "has no text where a name should be"));
    }
}
