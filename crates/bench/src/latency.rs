//! How long things take: a histogram, and what is said of it.

use hdrhistogram::Histogram;
use serde::Serialize;
use std::time::Duration;

/// A p99 is told from so many samples on.
pub const P99_SAMPLES_MIN: u64 = 1_000;

/// A p99.9 is told from so many samples on.
pub const P999_SAMPLES_MIN: u64 = 10_000;

/// The longest time that is told apart, in picoseconds: 1,000 seconds.
const PICOSECONDS_MAX: u64 = 1_000_000_000_000_000;

/// Samples in picoseconds, so that the mean of a block of very fast operations keeps three digits.
#[derive(Clone, Debug)]
pub(crate) struct Samples(Histogram<u64>);

/// Microseconds at each percentile; `None` where there are too few samples to tell.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Latency {
    pub min: f64,
    pub p25: f64,
    pub p50: f64,
    pub p75: f64,
    pub p90: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p999: Option<f64>,
    pub max: f64,
}

impl Samples {
    pub(crate) fn new() -> Samples {
        // Room for all values at once: growing would be counted as allocations of what is measured.
        Samples(Histogram::new_with_max(PICOSECONDS_MAX, 3).expect("the bounds are constants that fit each other"))
    }

    /// Adds the mean of a block of `ops` operations that took `time` together.
    pub(crate) fn record(&mut self, time: Duration, ops: u64) {
        let picoseconds = time.as_nanos() * 1_000 / u128::from(ops.max(1));
        self.0.saturating_record(u64::try_from(picoseconds).unwrap_or(u64::MAX).max(1));
    }

    /// Adds all samples of another list.
    pub(crate) fn add(&mut self, other: &Samples) {
        self.0.add(&other.0).expect("both have the same bounds");
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    pub(crate) fn latency(&self) -> Option<Latency> {
        if self.0.is_empty() {
            return None;
        }
        let micros = |picoseconds: u64| rounded(picoseconds as f64 / 1e6);
        let at = |quantile| micros(self.0.value_at_quantile(quantile));
        Some(Latency {
            min: micros(self.0.min()),
            p25: at(0.25),
            p50: at(0.50),
            p75: at(0.75),
            p90: at(0.90),
            p99: (self.count() >= P99_SAMPLES_MIN).then(|| at(0.99)),
            p999: (self.count() >= P999_SAMPLES_MIN).then(|| at(0.999)),
            max: micros(self.0.max()),
        })
    }
}

/// A figure with at most four decimals: more would be noise.
pub(crate) fn rounded(figure: f64) -> f64 {
    (figure * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::Samples;
    use std::time::Duration;

    #[test]
    fn percentiles_are_those_of_a_sorted_list_within_a_thousandth() {
        let mut samples = Samples::new();
        (1..=10_000).for_each(|micros| samples.record(Duration::from_micros(micros), 1));
        let latency = samples.latency().expect("there are samples");
        let near = |told: f64, exact: f64| (told / exact - 1.0).abs() < 0.001;
        assert!(near(latency.min, 1.0) && near(latency.p25, 2500.0) && near(latency.p50, 5000.0));
        assert!(near(latency.p90, 9000.0) && near(latency.max, 10_000.0));
        assert!(near(latency.p99.expect("10,000 samples"), 9900.0) && near(latency.p999.expect("enough"), 9990.0));
    }

    #[test]
    fn a_block_counts_as_one_sample_of_its_mean() {
        let mut samples = Samples::new();
        samples.record(Duration::from_nanos(320), 64);
        assert_eq!(samples.count(), 1);
        assert_eq!(samples.latency().map(|latency| latency.p50), Some(0.005));
    }

    #[test]
    fn rare_percentiles_are_left_out_until_there_are_samples_enough() {
        let mut samples = Samples::new();
        assert_eq!(samples.latency(), None);
        let told = |samples: &Samples| samples.latency().map(|latency| (latency.p99.is_some(), latency.p999.is_some()));
        (0..999).for_each(|_| samples.record(Duration::from_micros(1), 1));
        assert_eq!(told(&samples), Some((false, false)));
        samples.record(Duration::from_micros(1), 1);
        assert_eq!(told(&samples), Some((true, false)));
        (0..9_000).for_each(|_| samples.record(Duration::from_micros(1), 1));
        assert_eq!(told(&samples), Some((true, true)));
    }
}
