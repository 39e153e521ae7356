//! Queries: every answer equals a filter and a sort over the model, whatever the plan.

use crate::generator::{Generator, with_seeds};
use crate::model::ModelTable;
use crate::oracle::{self, Cell, cells};
use crate::rows::{Item, Phase, Section};
use crate::world::{SMALL, Space, WIDE, World, random_item};
use rollcall_schema::{Column, ColumnType, Literal, Row, Time};
use rollcall_store::{
    Condition, ConditionError, Cursor, Explanation, Operator, Order, Query, QueryError, RowNumber, Snapshot, Sort,
    StoreLimits, Table, Visible,
};
use std::collections::{BTreeMap, BTreeSet};

const OPERATORS: [Operator; 6] = [
    Operator::Equal,
    Operator::NotEqual,
    Operator::Less,
    Operator::LessOrEqual,
    Operator::Greater,
    Operator::GreaterOrEqual,
];

fn random_column(random: &mut Generator) -> usize {
    random.below(Item::schema().columns.len())
}

fn is_nested(column: usize) -> bool {
    matches!(Item::schema().columns[column].column_type, ColumnType::Nested(_))
}

/// A value of the column: one that is there, one that could be, or none.
fn random_value(random: &mut Generator, items: &[Item], column: usize) -> Literal<'static> {
    if random.chance(4) {
        return Literal::Null;
    }
    let item =
        if items.is_empty() || random.chance(20) { random_item(random, SMALL) } else { random.pick(items).clone() };
    Cell::of(item.value(column)).literal()
}

fn random_pattern(random: &mut Generator, items: &[Item], column: usize) -> String {
    let text = match random_value(random, items, column) {
        Literal::Text(text) => text.into_owned(),
        _ => String::new(),
    };
    let mut pattern = String::new();
    for letter in text.chars() {
        match random.below(12) {
            0 => pattern.push('%'),
            1 => pattern.push('_'),
            2 if !pattern.is_empty() => {
                pattern.push('%');
                break;
            }
            _ => pattern.push(letter),
        }
    }
    pattern
}

fn random_condition(random: &mut Generator, items: &[Item], depth: usize) -> Condition<'static> {
    let parts = |random: &mut Generator| {
        (0..random.below(4)).map(|_| random_condition(random, items, depth + 1)).collect::<Vec<_>>()
    };
    let column = random_column(random);
    let text = matches!(Item::schema().columns[column].column_type, ColumnType::Text);
    match random.below(if depth < 3 { 12 } else { 8 }) {
        8 => Condition::And(parts(random)),
        9 => Condition::Or(parts(random)),
        10 | 11 => Condition::Not(Box::new(random_condition(random, items, depth + 1))),
        0 => Condition::IsNull { column },
        _ if is_nested(column) => Condition::IsNull { column },
        1 => {
            let values = (0..random.below(5)).map(|_| random_value(random, items, column)).collect();
            Condition::In { column, values }
        }
        2 | 3 if text => Condition::Like { column, pattern: random_pattern(random, items, column).into() },
        4..=6 => {
            let value = random_value(random, items, column);
            Condition::Compare { column, operator: Operator::Equal, value }
        }
        _ => {
            let value = random_value(random, items, column);
            Condition::Compare { column, operator: *random.pick(&OPERATORS), value }
        }
    }
}

fn random_order(random: &mut Generator) -> Order {
    let falling = random.chance(50);
    match random.below(4) {
        0 => Order::Any,
        1 => Order::Number,
        2 => {
            let index = random.pick(Item::schema().indexes);
            let from = random.below(index.columns.len());
            Order::By(index.columns[from..].iter().map(|column| Sort { column: *column, falling }).collect())
        }
        _ => {
            let columns = (0..random.below(5)).map(|_| random_column(random)).filter(|column| !is_nested(*column));
            let columns: Vec<_> = columns.collect();
            Order::By(columns.into_iter().map(|column| Sort { column, falling: random.chance(50) }).collect())
        }
    }
}

/// What a query asks, kept apart from the query so that the model can answer it too.
struct Asked {
    conditions: Vec<Condition<'static>>,
    order: Order,
    limit: Option<usize>,
    after: Option<Cursor>,
}

impl Asked {
    fn random(random: &mut Generator, items: &[Item]) -> Asked {
        let conditions = (0..random.below(4)).map(|_| random_condition(random, items, 0)).collect();
        let limit = random.chance(50).then(|| random.below(30));
        Asked { conditions, order: random_order(random), limit, after: None }
    }

    fn query<'q>(&self, visible: Option<&'q Visible>) -> Query<'q> {
        let query = self.conditions.iter().cloned().fold(Query::all(), Query::filter);
        let query = query.order(self.order.clone()).visible(visible);
        let query = match self.limit {
            Some(limit) => query.limit(limit),
            None => query,
        };
        match &self.after {
            Some(cursor) => query.after(cursor.clone()),
            None => query,
        }
    }

    /// The numbers of all rows that match in order, without cursor and limit.
    fn answer(&self, model: &ModelTable<Item>, seen: &BTreeSet<Vec<Cell>>) -> Vec<u64> {
        let passes = |_, item: &Item| {
            seen.contains(&cells(item, Item::schema().partition))
                && self.conditions.iter().all(|condition| oracle::matches(item, condition))
        };
        let mut rows = model.select(passes);
        rows.sort_by(|left, right| oracle::order(&self.order, (left.0, &*left.1), (right.0, &*right.1)));
        rows.into_iter().map(|(number, _)| number).collect()
    }

    fn check(&mut self, random: &mut Generator, table: &Table<Item>, model: &ModelTable<Item>, seen: &Seen) {
        let all = self.answer(model, &seen.partitions);
        let wanted = self.limit.unwrap_or(usize::MAX).min(all.len());
        let mut rows = table.select(self.query(seen.visible())).unwrap();
        let found: Vec<_> = rows.by_ref().collect();
        let numbers: Vec<u64> = found.iter().map(|row| row.number.0).collect();
        let asked = self.query(None);
        assert!(rows.explanation().rows_read <= model.rows.len(), "{asked:?} reads rows twice");
        if self.order == Order::Any {
            let distinct: BTreeSet<u64> = numbers.iter().copied().collect();
            assert_eq!((numbers.len(), distinct.len()), (wanted, wanted), "{asked:?}");
            assert!(distinct.iter().all(|number| all.contains(number)), "{asked:?}");
            return;
        }
        assert_eq!(numbers, all[..wanted], "{asked:?} by {:?}", rows.explanation());
        for row in &found {
            assert_eq!(*row.row(), *model.rows[&row.number.0].row);
        }
        if found.is_empty() {
            return;
        }
        let position = random.below(found.len());
        self.after = Some(rows.cursor(found[position]));
        let rest = &all[position + 1..];
        let rest = &rest[..self.limit.unwrap_or(usize::MAX).min(rest.len())];
        let mut rows = table.select(self.query(seen.visible())).unwrap();
        let numbers: Vec<u64> = rows.by_ref().map(|row| row.number.0).collect();
        assert_eq!(numbers, rest, "{:?} by {:?}", self.query(None), rows.explanation());
    }
}

/// The partitions that somebody may see; all of them if there is no set.
struct Seen {
    partitions: BTreeSet<Vec<Cell>>,
    made: Option<Visible>,
}

impl Seen {
    fn random(random: &mut Generator, table: &Table<Item>, model: &ModelTable<Item>) -> Seen {
        let mut partitions: BTreeSet<Vec<Cell>> = model.partitions.keys().cloned().collect();
        if random.chance(40) {
            return Seen { partitions, made: None };
        }
        partitions.retain(|_| random.chance(50));
        let made = table.visible(|values| partitions.contains(&values.map(Cell::of).collect::<Vec<_>>()));
        Seen { partitions, made: Some(made) }
    }

    fn visible(&self) -> Option<&Visible> {
        self.made.as_ref()
    }
}

fn random_queries(seeds: u64, space: Space, commands: usize, queries: usize) {
    with_seeds(seeds, |_, mut random| {
        let mut world = World::new(StoreLimits::default());
        for _ in 0..4 {
            world.commit(&mut random, space, commands);
        }
        let snapshot = world.snapshot();
        let (table, model) = (snapshot.table::<Item>(), &world.model.items);
        let items: Vec<Item> = model.rows.values().map(|found| (*found.row).clone()).collect();
        for _ in 0..queries {
            let seen = Seen::random(&mut random, table, model);
            Asked::random(&mut random, &items).check(&mut random, table, model, &seen);
        }
    });
}

#[test]
fn random_queries_are_answered_like_the_model() {
    random_queries(4, SMALL, 60, 300);
    random_queries(2, WIDE, 120, 200);
}

#[test]
fn paging_gives_each_row_that_stays_exactly_once_while_others_come_change_and_go() {
    with_seeds(6, |seed, mut random| {
        let mut world = World::new(StoreLimits::default());
        world.commit(&mut random, WIDE, 200);
        let falling = seed % 2 == 0;
        let by = |columns: &[Column<Item>]| {
            Order::By(columns.iter().map(|column| Sort { column: column.position(), falling }).collect())
        };
        let orders =
            [Order::Number, by(&[Item::NAME]), by(&[Item::RANK, Item::NAME]), by(&[Item::PHASE]), by(&[Item::CPUS])];
        for order in orders {
            let columns: Vec<usize> = match &order {
                Order::By(sorts) => sorts.iter().map(|sort| sort.column).collect(),
                _ => Vec::new(),
            };
            let keys = |world: &World| -> BTreeMap<u64, Vec<Cell>> {
                world.model.items.rows.iter().map(|(number, found)| (*number, cells(&*found.row, &columns))).collect()
            };
            let mut stayed = keys(&world);
            let mut found: Vec<u64> = Vec::new();
            let mut after = None;
            loop {
                let snapshot = world.snapshot();
                let query = Query::all().order(order.clone()).limit(9);
                let query = match after.take() {
                    Some(cursor) => query.after(cursor),
                    None => query,
                };
                let mut rows = snapshot.table::<Item>().select(query).unwrap();
                let page: Vec<_> = rows.by_ref().collect();
                let Some(last) = page.last() else { break };
                after = Some(rows.cursor(*last));
                found.extend(page.iter().map(|row| row.number.0));
                if found.len() < 2000 {
                    world.commit(&mut random, Space { insert_percent: 20, ..WIDE }, 6);
                }
                let now = keys(&world);
                stayed.retain(|number, key| now.get(number) == Some(key));
            }
            for number in stayed.keys() {
                let times = found.iter().filter(|found| *found == number).count();
                assert_eq!(times, 1, "row {number} in {order:?}");
            }
            assert!(stayed.len() > 20, "the test needs rows that stay");
        }
    });
}

/// 10,000 items of 100 jobs in 20 partitions.
pub fn ten_thousand(limits: StoreLimits) -> World {
    let mut world = World::new(limits);
    for thousand in 0..10 {
        let mut batch = world.writer.begin(Time::from_micros(thousand));
        batch
            .attempt(|change| {
                (0..1000).try_for_each(|row| change.insert(numbered(thousand as usize * 1000 + row)).map(drop))
            })
            .unwrap();
        let prepared = batch.prepare().unwrap();
        world.writer.publish(prepared);
    }
    world
}

pub fn numbered(row: usize) -> Item {
    let mut item = Item::named(format!("item {row:05}"));
    item.owner = format!("owner {}", row % 20).into();
    (item.job, item.instance) = ((row % 100) as u32, (row / 100) as u32);
    item.host = (!row.is_multiple_of(10)).then(|| format!("host {:02}", row % 50).into());
    item.rank = (!row.is_multiple_of(4)).then_some((row % 1000) as i64 - 500);
    item.phase = if row.is_multiple_of(5) { Phase::Running } else { Phase::Done };
    item.at = Time::from_micros(row as i64);
    item.section = if row % 200 < 190 { Section::Live } else { Section::Completed };
    item
}

/// Runs a query; gives how many rows it found and how it was answered.
fn explained(snapshot: &Snapshot, query: Query<'_>) -> (usize, Explanation) {
    let mut rows = snapshot.table::<Item>().select(query).unwrap();
    let found = rows.by_ref().count();
    (found, rows.explanation())
}

fn compare(column: Column<Item>, operator: Operator, value: impl Into<Literal<'static>>) -> Condition<'static> {
    Condition::Compare { column: column.position(), operator, value: value.into() }
}

fn sorted(columns: &[Column<Item>], falling: bool) -> Order {
    Order::By(columns.iter().map(|column| Sort { column: column.position(), falling }).collect())
}

#[test]
fn an_index_reads_few_rows() {
    let world = ten_thousand(StoreLimits::default());
    let snapshot = world.snapshot();
    let like = |pattern: &'static str| Condition::Like { column: Item::NAME.position(), pattern: pattern.into() };
    let hosts = ["host 01", "host 02", "no host"].map(Literal::from).to_vec();
    let is_null = Condition::IsNull { column: Item::HOST.position() };
    let all = Query::all;
    let active = || Query::all().equal(Item::ACTIVE, true);
    let cases = [
        // (query, index, rows found, rows read at most)
        (all().equal(Item::NAME, "item 04321"), Some("name"), 1, 1),
        (all().equal(Item::NAME, "nobody"), Some("name"), 0, 0),
        (all().equal(Item::JOB, 7u32).equal(Item::INSTANCE, 3u32), Some("job_instance"), 1, 1),
        (all().equal(Item::JOB, 7u32), Some("job_instance"), 100, 100),
        (all().equal(Item::JOB, 7u32).limit(5), Some("job_instance"), 5, 5),
        (
            all().equal(Item::JOB, 7u32).filter(compare(Item::INSTANCE, Operator::Less, 10u32)),
            Some("job_instance"),
            10,
            10,
        ),
        (active().equal(Item::INSTANCE, 3u32).equal(Item::JOB, 5u32), Some("live_slot"), 1, 1),
        (active().equal(Item::INSTANCE, 3u32), Some("live_slot"), 18, 18),
        (all().filter(like("item 0432%")), Some("name"), 10, 10),
        (all().filter(like("item 043%5")), Some("name"), 10, 100),
        (all().filter(like("%5")), None, 1000, 10_000),
        (all().filter(Condition::In { column: Item::HOST.position(), values: hosts }), Some("host"), 400, 400),
        (all().filter(is_null), Some("host"), 1000, 1000),
        (active().equal(Item::HOST, "host 05"), Some("host_active"), 200, 200),
        (active().equal(Item::HOST, "host 07"), Some("host_active"), 0, 0),
        (
            all().equal(Item::PHASE, Phase::Running).filter(compare(
                Item::AT,
                Operator::GreaterOrEqual,
                Time::from_micros(9000),
            )),
            Some("phase_at"),
            200,
            200,
        ),
        (all().order(sorted(&[Item::NAME], false)).limit(10), Some("name"), 10, 10),
        (all().order(sorted(&[Item::NAME], true)).limit(10), Some("name"), 10, 10),
        (all().order(sorted(&[Item::RANK, Item::NAME], true)).limit(10), Some("rank"), 10, 10),
        (all().equal(Item::PHASE, Phase::Done).order(sorted(&[Item::AT], true)).limit(3), Some("phase_at"), 3, 3),
        (all().order(Order::Number).limit(10), None, 10, 10),
        (all().order(Order::Number).limit(10).after(Cursor { values: vec![], number: RowNumber(9000) }), None, 10, 10),
        (all().limit(10), None, 10, 10),
        (all(), None, 10_000, 10_000),
    ];
    for (position, (query, index, found, read_max)) in cases.into_iter().enumerate() {
        let (rows, explanation) = explained(&snapshot, query.clone());
        assert_eq!((rows, explanation.index), (found, index), "case {position}: {query:?}");
        assert!(explanation.rows_read <= read_max, "case {position}: {query:?} reads {}", explanation.rows_read);
    }
}

#[test]
fn a_cursor_of_an_indexed_order_is_sought_and_not_read_up_to() {
    let world = ten_thousand(StoreLimits::default());
    let snapshot = world.snapshot();
    for order in [sorted(&[Item::NAME], true), sorted(&[Item::RANK, Item::NAME], false), Order::Number] {
        let (mut after, mut found) = (None, 0);
        loop {
            let query = Query::all().order(order.clone()).limit(500);
            let query = if let Some(cursor) = after { query.after(cursor) } else { query };
            let mut rows = snapshot.table::<Item>().select(query).unwrap();
            let page: Vec<_> = rows.by_ref().collect();
            assert_eq!(rows.explanation().rows_read, page.len(), "{order:?}");
            let Some(last) = page.last() else { break };
            found += page.len();
            after = Some(rows.cursor(*last));
        }
        assert_eq!(found, 10_000);
    }
}

#[test]
fn rows_of_partitions_that_may_not_be_seen_are_not_read_by_any_plan() {
    let world = ten_thousand(StoreLimits::default());
    let snapshot = world.snapshot();
    let table = snapshot.table::<Item>();
    let visible = table.visible(|values| Cell::of(values.next().unwrap()) == Cell::Text("owner 7".into()));
    let queries = [
        (Query::all(), 500),
        (Query::all().equal(Item::JOB, 7u32), 100),
        (Query::all().equal(Item::JOB, 8u32), 0),
        (Query::all().order(Order::Number).limit(50), 50),
        (Query::all().order(sorted(&[Item::NAME], true)).limit(50), 50),
        (Query::all().order(sorted(&[Item::CPUS], true)), 500),
    ];
    for (query, expected) in queries {
        let (found, explanation) = explained(&snapshot, query.clone().visible(Some(&visible)));
        assert_eq!(found, expected, "{query:?}");
        assert_eq!(explanation.rows_read, expected, "{query:?}");
    }
    let nothing = Visible::default();
    assert_eq!(explained(&snapshot, Query::all().visible(Some(&nothing))).0, 0);
}

#[test]
fn whole_pages_are_given_for_queries_without_condition_order_or_limit_alone() {
    let world = ten_thousand(StoreLimits::default());
    let snapshot = world.snapshot();
    let table = snapshot.table::<Item>();
    let visible = table.visible(|values| Cell::of(values.next().unwrap()) == Cell::Text("owner 7".into()));
    let rows = table.select(Query::all().visible(Some(&visible))).unwrap();
    let pages: Vec<_> = rows.whole_pages().unwrap().collect();
    assert_eq!(pages.iter().map(|page| page.len()).sum::<usize>(), 500);
    assert!(pages.iter().all(|page| visible.contains(page.partition())));
    let whole = |query: Query<'_>| table.select(query).unwrap().whole_pages().is_some();
    assert!(whole(Query::all()));
    assert!(!whole(Query::all().limit(3)));
    assert!(!whole(Query::all().equal(Item::JOB, 1u32)));
    assert!(!whole(Query::all().order(Order::Number)));
    let mut rows = table.select(Query::all()).unwrap();
    assert_eq!(rows.size_hint(), (10_000, Some(10_000)));
    rows.next();
    assert!(rows.whole_pages().is_none(), "pages of which rows were read are not whole");
}

#[test]
fn what_a_table_cannot_answer_is_refused() {
    let world = World::new(StoreLimits::default());
    let snapshot = world.snapshot();
    let refused = |query: Query<'_>| snapshot.table::<Item>().select(query).map(drop).unwrap_err();
    let wrong =
        |column, expected| QueryError::Condition(ConditionError::WrongType { table: "items", column, expected });
    assert_eq!(refused(Query::all().equal(Item::JOB, "seven")), wrong("job", "unsigned"));
    assert_eq!(refused(Query::all().equal(Item::SECTION, Literal::Enumeration(3))), wrong("section", "enumeration"));
    assert_eq!(refused(Query::all().equal(Item::NOTES, "x")), wrong("notes", "list"));
    let like = Condition::Like { column: Item::PAYLOAD.position(), pattern: "x".into() };
    assert_eq!(refused(Query::all().filter(like)), wrong("payload", "bytes"));
    let no_column = QueryError::Condition(ConditionError::NoColumn { table: "items", column: 99 });
    assert_eq!(refused(Query::all().filter(Condition::IsNull { column: 99 })), no_column.clone());
    assert_eq!(refused(Query::all().order(Order::By(vec![Sort { column: 99, falling: false }]))), no_column);
    assert_eq!(refused(Query::all().order(sorted(&[Item::NOTES], false))), QueryError::NoOrder { column: "notes" });
    assert_eq!(refused(Query::all().order(sorted(&[Item::JOB; 5], false))), QueryError::TooManySortColumns);
    let cursor = |values: Vec<Literal<'static>>| Cursor { values, number: RowNumber(1) };
    assert_eq!(refused(Query::all().after(cursor(vec![]))), QueryError::WrongCursor);
    let by_job = || Query::all().order(sorted(&[Item::JOB], false));
    assert_eq!(refused(by_job().after(cursor(vec![]))), QueryError::WrongCursor);
    assert_eq!(refused(by_job().after(cursor(vec!["text".into()]))), QueryError::WrongCursor);
    assert_eq!(refused(by_job().after(cursor(vec![Literal::Null]))), QueryError::WrongCursor);
    assert!(snapshot.table::<Item>().select(by_job().after(cursor(vec![7u32.into()]))).is_ok());
}

#[test]
fn a_condition_is_bounded_in_depth_and_terms_however_it_is_put() {
    let world = World::new(StoreLimits::default());
    let snapshot = world.snapshot();
    let answer = |query: Query<'_>| snapshot.table::<Item>().select(query).map(drop);
    let too_large = Err(QueryError::Condition(ConditionError::TooLarge));
    let term = || Condition::equal(Item::JOB, 1u32);
    let terms = |count: usize| (0..count).map(|_| term()).collect::<Vec<_>>();
    let values = |count: usize| Condition::In { column: Item::JOB.position(), values: vec![1u32.into(); count] };
    let nested = |depth: usize| (0..depth).fold(term(), |inner, _| Condition::Not(Box::new(inner)));
    assert_eq!(answer(Query::all().filter(Condition::Or(terms(4095)))), Ok(()));
    assert_eq!(answer(Query::all().filter(Condition::Or(terms(4096)))), too_large);
    assert_eq!(answer(Query::all().filter(values(4096))), Ok(()));
    assert_eq!(answer(Query::all().filter(values(4097))), too_large);
    assert_eq!(answer(Query::all().filter(nested(32))), Ok(()));
    assert_eq!(answer(Query::all().filter(nested(33))), too_large);
    // Conditions that are given one by one, or joined by "and", count together.
    assert_eq!(answer(Query::all().filter(Condition::And(terms(4096)))), Ok(()));
    assert_eq!(answer(Query::all().filter(Condition::And(terms(4097)))), too_large);
    assert_eq!(answer(Query::all().filter(values(4000)).filter(values(4000))), too_large);
}

#[test]
fn more_conditions_than_a_plan_looks_at_are_all_tested() {
    let world = ten_thousand(StoreLimits::default());
    let snapshot = world.snapshot();
    let mut query =
        (0..70).fold(Query::all(), |query, _| query.filter(compare(Item::JOB, Operator::GreaterOrEqual, 0u32)));
    query = query.equal(Item::JOB, 3u32).equal(Item::NAME, "item 00103");
    assert_eq!(explained(&snapshot, query).0, 1);
}

#[test]
fn bounds_at_the_ends_of_a_type_find_what_they_should() {
    let mut world = World::new(StoreLimits::default());
    let traces = [0, 1, u128::MAX - 1, u128::MAX];
    let ranks = [None, Some(i64::MIN), Some(0), Some(i64::MAX)];
    world.change(|both| {
        for (position, (trace, rank)) in traces.into_iter().zip(ranks).enumerate() {
            both.insert(Item { trace, rank, ..Item::named(format!("{position}")) })?;
        }
        Ok(())
    });
    let snapshot = world.snapshot();
    for operator in OPERATORS {
        for trace in traces {
            let condition = compare(Item::TRACE, operator, trace);
            let expected = world.model.items.select(|_, item| oracle::matches(item, &condition)).len();
            assert_eq!(explained(&snapshot, Query::all().filter(condition)).0, expected, "{operator:?} {trace}");
        }
        for rank in ranks.into_iter().flatten() {
            let condition = compare(Item::RANK, operator, rank);
            let expected = world.model.items.select(|_, item| oracle::matches(item, &condition)).len();
            assert_eq!(explained(&snapshot, Query::all().filter(condition)).0, expected, "{operator:?} {rank}");
        }
    }
}
