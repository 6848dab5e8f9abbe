//! Wrong plans give errors that say what to do.

use weir_aggregate::{
    Buckets, Comparison, Function, Having, Input, Kind, Limits, Measure, Plan, PlanError, PlanParams, Scalar,
    Top, Windows,
};

fn valid() -> PlanParams {
    let kinds = [Kind::Number, Kind::Time, Kind::Identity];
    let input = |(first_word, kind)| Input { first_word, words: 1, kind };
    PlanParams {
        key_words: 5,
        inputs: kinds.into_iter().enumerate().map(input).collect(),
        measures: vec![
            Measure { function: Function::Count, input: None },
            Measure { function: Function::Mean, input: Some(0) },
            Measure { function: Function::First, input: Some(2) },
        ],
        windows: Windows::Sliding { length_ns: 60_000, slide_ns: 10_000 },
        lateness_ns: 0,
        having: None,
        top: Some(Top { rows: 20, by: 0 }),
        limits: Limits::default(),
    }
}

/// The message of the parameters after a change.
fn message(change: impl FnOnce(&mut PlanParams)) -> String {
    let mut params = valid();
    change(&mut params);
    Plan::new(params).expect_err("a wrong plan").to_string()
}

fn measure(function: Function, input: impl Into<Option<usize>>) -> String {
    let input = input.into();
    message(|params| params.measures[0] = Measure { function, input })
}

fn compare(measure: usize, constant: Scalar) -> Having {
    Having::Compare { measure, comparison: Comparison::Less, constant }
}

#[test]
fn windows_must_fit_their_slide() {
    assert!(Plan::new(valid()).is_ok());
    let windows = |windows| message(|params| params.windows = windows);
    let short = "a window is shorter than a microsecond: state a longer one, such as 10s";
    assert_eq!(windows(Windows::Tumbling { length_ns: 0 }), short);
    assert_eq!(windows(Windows::Sliding { length_ns: 10_000, slide_ns: 999 }), short);
    for slide_ns in [3_000, 20_000] {
        let text = windows(Windows::Sliding { length_ns: 10_000, slide_ns });
        assert!(text.ends_with("the length must be a multiple of the slide"), "{text}");
    }
    let text = windows(Windows::Sliding { length_ns: 1_025_000, slide_ns: 1_000 });
    assert!(text.ends_with("the slide must be at least 1/1024 of the length"), "{text}");
    assert!(windows(Windows::Tumbling { length_ns: u64::MAX }).contains("292 years"));
}

#[test]
fn functions_must_fit_their_inputs() {
    assert_eq!(
        measure(Function::Sum, 2),
        "measure 1: sum takes no addresses and texts: count, distinct, first and last do"
    );
    assert_eq!(
        measure(Function::Sum, 1),
        "measure 1: sum takes no times: count, distinct, first, last, min, max and mean do"
    );
    assert_eq!(measure(Function::Sum, None), "measure 1: sum needs a field, such as sum(frame.len)");
    assert_eq!(measure(Function::Count, 3), "measure 1 uses input 4, which does not exist");
    for q in [-0.1, 1.5, f64::NAN] {
        assert!(measure(Function::Quantile(q), 0).contains("is not in the range 0 to 1"));
    }
    let wrong: [&[Scalar]; 4] = [
        &[],
        &[Scalar::Number(2), Scalar::Number(2)],
        &[Scalar::Fraction(1.0)],
        &[Scalar::Number(3), Scalar::Number(1)],
    ];
    for bounds in wrong {
        let text = measure(Function::Histogram(Buckets::From(bounds.to_vec())), 0);
        assert!(text.contains("must ascend"), "{bounds:?}: {text}");
    }
}

#[test]
fn sizes_have_bounds() {
    assert!(message(|params| params.key_words = 33).contains("at most 32"));
    assert!(message(|params| params.inputs = vec![params.inputs[0]; 65]).contains("at most 64"));
    assert!(message(|params| params.inputs[0].words = 2).starts_with("input 1"));
    assert!(message(|params| params.inputs[2].words = 33).starts_with("input 3"));
    assert!(message(|params| params.inputs[2].first_word = usize::MAX).starts_with("input 3"));
    assert!(message(|params| params.measures.clear()).contains("count()"));
    assert_eq!(
        message(|params| params.limits.groups_max = 0),
        "the bound on groups must be from 1 to 268435456"
    );
    assert!(message(|params| params.limits.distinct_exact_max = 40_000).contains("32768"));
}

#[test]
fn predicates_and_the_sort_must_fit_the_results() {
    let having = |having| message(|params| params.having = Some(having));
    assert_eq!(
        having(compare(1, Scalar::Number(5))),
        "measure 2 gives fractions: compare with a value of this kind"
    );
    assert!(having(compare(1, Scalar::Fraction(f64::NAN))).contains("fractions"));
    assert!(having(Having::And(vec![compare(2, Scalar::Number(5))])).contains("have no order"));
    assert!(
        having(Having::Not(Box::new(compare(3, Scalar::Number(5))))).contains("measure 4 does not exist")
    );
    let deep = (0..100).fold(compare(0, Scalar::Number(1)), |inner, _| Having::Not(Box::new(inner)));
    assert!(having(deep).contains("more than 64 deep"));
    assert!(message(|params| params.top = Some(Top { rows: 1, by: 2 })).contains("have no order"));
    assert!(message(|params| params.top = Some(Top { rows: 0, by: 0 })).contains("at least 1"));
    let mut params = valid();
    params.top = Some(Top { rows: 1, by: 9 });
    assert_eq!(Plan::new(params).err(), Some(PlanError::UnknownMeasure { measure: 9 }));
}
