//! Plans and records from a seed.

use weir_aggregate::{
    Buckets, Comparison, Function, Having, Input, Kind, Limits, Measure, PlanParams, Scalar, Top, Windows,
};
use weir_testing::Random;

#[derive(Debug, Clone)]
pub struct OwnedRecord {
    pub time_ns: i64,
    pub order: u64,
    pub key: Vec<u64>,
    pub key_present: u64,
    pub inputs: [u64; 6],
    pub inputs_present: u64,
}

#[derive(Debug, Clone)]
pub enum Step {
    Record(OwnedRecord),
    Time(i64),
}

/// The inputs of all plans: one of each kind.
pub fn inputs() -> Vec<Input> {
    let kinds = [Kind::Number, Kind::Time, Kind::Interval, Kind::Fraction, Kind::Identity];
    let input =
        |(first_word, kind)| Input { first_word, words: if kind == Kind::Identity { 2 } else { 1 }, kind };
    kinds.into_iter().enumerate().map(input).collect()
}

pub fn plan(random: &mut Random) -> PlanParams {
    let measures: Vec<_> = (0..=random.below(6)).map(|_| measure(random)).collect();
    // Constants and the sort compare results that the model knows exactly.
    let exact: Vec<usize> = (0..measures.len())
        .filter(|n| {
            !matches!(
                measures[*n].function,
                Function::Distinct
                    | Function::Quantile(_)
                    | Function::First
                    | Function::Last
                    | Function::Histogram(_)
            )
        })
        .collect();
    let having = (!exact.is_empty() && random.once_in(2)).then(|| having(random, &exact, &measures, 0));
    let top = (!exact.is_empty() && random.once_in(2))
        .then(|| Top { rows: 1 + random.below(6) as usize, by: random.pick(&exact) });
    let windows = match random.below(3) {
        0 => Windows::None,
        1 => Windows::Tumbling { length_ns: 1_000 * (1 + random.below(9)) },
        _ => {
            let slide_ns = 1_000 * (1 + random.below(4));
            Windows::Sliding { length_ns: slide_ns * (1 + random.below(7)), slide_ns }
        }
    };
    PlanParams {
        key_words: random.below(4) as usize,
        inputs: inputs(),
        measures,
        windows,
        lateness_ns: random.pick(&[0, 500, 3_000]),
        having,
        top,
        limits: Limits {
            panes_max: 10,
            // Which records find no room depends on the worker: either none has room ahead, or all have.
            panes_ahead_max: random.pick(&[0, 1_000]),
            distinct_exact_max: random.pick(&[1, 5, 20, 1_024]),
            ..Limits::default()
        },
    }
}

fn measure(random: &mut Random) -> Measure {
    let q = random.pick(&[0.0, 0.1, 0.5, 0.95, 1.0]);
    let functions = [
        Function::Sum,
        Function::Count,
        Function::Min,
        Function::Max,
        Function::Mean,
        Function::Rate,
        Function::Quantile(q),
        Function::Distinct,
        Function::First,
        Function::Last,
        Function::Histogram(Buckets::PowersOfTwo),
        Function::Histogram(Buckets::From([3, 100, 5_000].map(Scalar::Number).to_vec())),
        Function::Histogram(Buckets::From([-1.5, 0.0, 20.0].map(Scalar::Fraction).to_vec())),
    ];
    let function = random.pick(&functions);
    let kinds: &[Option<usize>] = match &function {
        Function::Count => &[None, Some(0), Some(1), Some(3), Some(4)],
        Function::Rate => &[None, Some(0), Some(2), Some(3)],
        Function::Sum | Function::Quantile(_) => &[Some(0), Some(2), Some(3)],
        Function::Min | Function::Max | Function::Mean => &[Some(0), Some(1), Some(2), Some(3)],
        Function::Distinct | Function::First | Function::Last => {
            &[Some(0), Some(1), Some(2), Some(3), Some(4)]
        }
        Function::Histogram(Buckets::PowersOfTwo) => &[Some(0), Some(2)],
        Function::Histogram(Buckets::From(bounds)) if bounds[0].kind() == Kind::Fraction => &[Some(3)],
        Function::Histogram(Buckets::From(_)) => &[Some(0)],
    };
    let input = random.pick(kinds);
    Measure { function, input }
}

fn having(random: &mut Random, exact: &[usize], measures: &[Measure], depth: u64) -> Having {
    let more = |random: &mut Random| {
        (0..random.below(3)).map(|_| having(random, exact, measures, depth + 1)).collect::<Vec<_>>()
    };
    match random.below(4 + depth * 4) {
        0 => Having::And(more(random)),
        1 => Having::Or(more(random)),
        2 => Having::Not(Box::new(having(random, exact, measures, depth + 1))),
        _ => {
            let measure = random.pick(exact);
            let comparison = random.pick(&[
                Comparison::Equal,
                Comparison::NotEqual,
                Comparison::Less,
                Comparison::AtMost,
                Comparison::Greater,
                Comparison::AtLeast,
            ]);
            let number = random.pick(&[0, 1, 2, 3, 10, 1_000, 60_000]);
            let fraction = number as f64 - 1.0;
            let constant = match (&measures[measure].function, measures[measure].input) {
                (Function::Count, _) => Scalar::Number(number),
                (Function::Rate, _) | (Function::Mean, Some(0)) | (_, Some(3)) => Scalar::Fraction(fraction),
                (_, Some(1)) => Scalar::Time(number.cast_signed()),
                (_, Some(2)) => Scalar::Interval(number),
                _ => Scalar::Number(number),
            };
            Having::Compare { measure, comparison, constant }
        }
    }
}

/// Records around a clock that goes on, some of them late, some with hostile times, and capture times.
pub fn steps(random: &mut Random, key_words: usize) -> Vec<Step> {
    let mut clock = random.pick(&[-20_000, 0, 1_700_000_000_000_000_000_i64]);
    let mut steps = vec![Step::Time(clock)];
    let number = random.below(400);
    let keys = 1 + random.below(12);
    for order in 0..number {
        clock += 100 * random.below(8).cast_signed();
        if random.once_in(60) {
            clock += 1_000 * random.below(40).cast_signed();
        }
        match random.below(12) {
            0 => steps.push(Step::Time(clock - 1_000 * random.below(3).cast_signed())),
            1 if random.once_in(400) => steps.push(Step::Time(random.pick(&[i64::MAX, i64::MIN]))),
            _ => steps.push(Step::Record(record(random, clock, order, key_words, keys))),
        }
    }
    steps
}

fn record(random: &mut Random, clock: i64, order: u64, key_words: usize, keys: u64) -> OwnedRecord {
    let hostile = [i64::MIN, i64::MAX, random.bits().cast_signed(), clock + 1_000_000, clock - 1_000_000];
    let time_ns = match random.below(20) {
        0 => random.pick(&hostile),
        1..4 => clock - 100 * random.below(90).cast_signed(),
        _ => clock,
    };
    // Multiples of 1/8, so that sums of `f64` are exact in the model.
    let fraction = random.below(400) as f64 / 8.0 - 10.0;
    let (small, large) = (random.below(40), random.bits() >> random.below(64));
    let (bits, some_present) = (random.bits().cast_signed(), random.bits());
    OwnedRecord {
        time_ns,
        order,
        key: (0..key_words).map(|_| random.below(keys)).collect(),
        key_present: random.pick(&[1, 1, 1, 0, 3]),
        inputs: [
            random.pick(&[small, small, large, u64::MAX]),
            random.pick(&[clock, bits, 7]).cast_unsigned(),
            random.bits() >> random.below(64),
            random.pick(&[fraction, fraction, f64::NAN]).to_bits(),
            random.below(3),
            random.below(15),
        ],
        inputs_present: random.pick(&[0, u64::MAX, u64::MAX, some_present]),
    }
}
