//! Numbers in JSON that come back to the bit: as text, because numbers of JSON may be rounded.

use serde::{Deserialize, Deserializer, Serializer};

pub(super) fn serialize<S: Serializer>(value: &f64, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(&value.to_string())
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map_err(serde::de::Error::custom)
}

/// The same for numbers by name.
pub(super) mod map {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(in crate::run) fn serialize<S: Serializer>(
        values: &BTreeMap<String, f64>,
        out: S,
    ) -> Result<S::Ok, S::Error> {
        out.collect_map(values.iter().map(|(name, value)| (name, value.to_string())))
    }

    pub(in crate::run) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<String, f64>, D::Error> {
        let texts = BTreeMap::<String, String>::deserialize(from)?;
        let number = |(name, text): (String, String)| Ok((name, text.parse()?));
        let numbers = texts.into_iter().map(number);
        numbers.collect::<Result<_, std::num::ParseFloatError>>().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Serialize};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Both {
        #[serde(with = "super")]
        one: f64,
        #[serde(with = "super::map")]
        many: BTreeMap<String, f64>,
    }

    #[test]
    fn numbers_come_back() {
        for one in [0.1 + 0.2, 1e-300, 123_456_789.123_456_78, f64::INFINITY] {
            let both = Both { one, many: [("auc".to_owned(), one / 3.0)].into() };
            let text = serde_json::to_string(&both).unwrap();
            assert_eq!(serde_json::from_str::<Both>(&text).unwrap(), both);
        }
    }
}
