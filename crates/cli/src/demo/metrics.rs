//! How good predictions of clicks are, computed exactly from all of them.

/// The area under the ROC curve: the chance that a click is ranked above a non-click, ties counting
/// half. `None` unless both kinds are there.
pub fn auc(labels: &[u8], scores: &[f32]) -> Option<f64> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_unstable_by(|a, b| scores[*a].total_cmp(&scores[*b]));
    let (mut below, mut wins, mut clicks) = (0.0, 0.0, 0.0);
    for ties in order.chunk_by(|a, b| scores[*a] == scores[*b]) {
        let clicked = ties.iter().filter(|i| labels[**i] == 1).count() as f64;
        let rest = ties.len() as f64 - clicked;
        wins += clicked * (below + 0.5 * rest);
        below += rest;
        clicks += clicked;
    }
    (clicks > 0.0 && below > 0.0).then(|| wins / (clicks * below))
}

/// The mean negative log likelihood of the labels.
pub fn log_loss(labels: &[u8], probabilities: &[f32]) -> f64 {
    let sum: f64 = labels
        .iter()
        .zip(probabilities)
        .map(|(label, p)| {
            // A probability of exactly 0 or 1 must cost something finite.
            let p = f64::from(*p).clamp(1e-12, 1.0 - 1e-12);
            if *label == 1 { -p.ln() } else { -(1.0 - p).ln() }
        })
        .sum();
    sum / labels.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auc_counts_pairs() {
        assert_eq!(auc(&[0, 0, 1, 1], &[0.1, 0.4, 0.35, 0.8]), Some(0.75));
        assert_eq!(auc(&[0, 1], &[0.5, 0.5]), Some(0.5));
        assert_eq!(auc(&[1, 1], &[0.5, 0.6]), None);
    }

    #[test]
    fn log_loss_is_finite() {
        assert!((log_loss(&[1, 0], &[0.5, 0.5]) - 2f64.ln()).abs() < 1e-12);
        assert!(log_loss(&[1], &[0.0]).is_finite());
    }
}
