//! Random values and conditions, for tests.

use crate::testing::Everything;
use proptest::prelude::{Just, Strategy, any, prop, prop_oneof};
use rollcall_schema::{ColumnType, Literal, Row, Time};
use rollcall_store::{Condition, Operator};
use std::borrow::Cow;

/// Any value of this type.
pub fn literal(column_type: ColumnType) -> proptest::strategy::BoxedStrategy<Literal<'static>> {
    match column_type {
        ColumnType::Boolean => any::<bool>().prop_map(Literal::Boolean).boxed(),
        ColumnType::Unsigned => any::<u64>().prop_map(Literal::Unsigned).boxed(),
        ColumnType::Signed => any::<i64>().prop_map(Literal::Signed).boxed(),
        ColumnType::Time => (-62_167_219_200_000_000i64..253_402_207_200_000_000)
            .prop_map(|micros| Literal::Time(Time::from_micros(micros)))
            .boxed(),
        ColumnType::Enumeration(words) => (0..words.len() as u8).prop_map(Literal::Enumeration).boxed(),
        ColumnType::Identifier => any::<u128>().prop_map(Literal::Identifier).boxed(),
        ColumnType::Text => {
            prop_oneof![any::<String>(), "['a%_ ]{0,6}"].prop_map(|text| Literal::Text(Cow::Owned(text))).boxed()
        }
        ColumnType::Bytes => any::<Vec<u8>>().prop_map(|bytes| Literal::Bytes(Cow::Owned(bytes))).boxed(),
        ColumnType::Nested(_) => Just(Literal::Null).boxed(),
    }
}

fn comparison() -> impl Strategy<Value = Condition<'static>> {
    use Operator::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    (0..Everything::schema().columns.len()).prop_flat_map(|column| {
        let column_type = Everything::schema().columns[column].column_type;
        let null = Just(Condition::IsNull { column });
        if matches!(column_type, ColumnType::Nested(_)) {
            return null.boxed();
        }
        let ordered = !matches!(column_type, ColumnType::Boolean | ColumnType::Enumeration(_));
        let operators = if ordered {
            vec![Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual]
        } else {
            vec![Equal, NotEqual]
        };
        let compare = (prop::sample::select(operators), literal(column_type))
            .prop_map(move |(operator, value)| Condition::Compare { column, operator, value });
        let one_of =
            prop::collection::vec(literal(column_type), 1..4).prop_map(move |values| Condition::In { column, values });
        let like = any::<String>().prop_map(move |pattern| Condition::Like { column, pattern: Cow::Owned(pattern) });
        if matches!(column_type, ColumnType::Text) {
            prop_oneof![compare, one_of, like, null].boxed()
        } else {
            prop_oneof![compare, one_of, null].boxed()
        }
    })
}

/// Any condition on [`Everything`] that has a text.
pub fn condition() -> impl Strategy<Value = Condition<'static>> {
    comparison().prop_recursive(5, 24, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..4).prop_map(Condition::And),
            prop::collection::vec(inner.clone(), 2..4).prop_map(Condition::Or),
            inner.prop_map(|inner| Condition::Not(Box::new(inner))),
        ]
    })
}
