//! The equation of an Einstein sum: `ij,jk->ik`, with `...` for any further axes.
//!
//! A label that stands twice in a term means a diagonal. Without `->`, the output has the labels
//! that occur once, in alphabetical order, after what `...` stands for.

use crate::ops::prelude::*;

/// The name of an axis: a letter, or [`FIRST_UNNAMED`] and above for what `...` stands for, counted
/// from the last one.
pub(super) type Label = u8;

/// Above all letters.
const FIRST_UNNAMED: Label = 128;

/// The axes of one operand, or of the output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Term {
    labels: Vec<Label>,
    /// How many labels stand before `...`, if it has one.
    ellipsis: Option<usize>,
}

/// A parsed equation.
#[derive(Clone, Debug)]
pub(super) struct Equation {
    text: String,
    inputs: Vec<Term>,
    output: Option<Term>,
}

/// An equation on operands of known rank: a label for every axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Labels {
    pub(super) inputs: Vec<Vec<Label>>,
    pub(super) output: Vec<Label>,
    /// Every label and its size; -1 where unknown.
    sizes: Vec<(Label, i64)>,
}

impl Labels {
    /// The size of an axis.
    pub(super) fn size(&self, label: Label) -> i64 {
        let found = self.sizes.iter().find(|(other, _)| *other == label);
        // Only `...` of the output alone has labels that no operand has: none at all.
        found.map_or(1, |(_, size)| *size)
    }
}

/// Whether the label is one of those that `...` stands for, which repeat where they are 1.
pub(super) fn is_unnamed(label: Label) -> bool {
    label >= FIRST_UNNAMED
}

impl Equation {
    /// # Errors
    /// When the text is no equation; names the position of the first fault, from 1.
    pub(super) fn parse(text: &str) -> Result<Equation> {
        let fault = |at: usize, problem: &str| {
            Error::kernel(format!("equation `{text}`, character {}: {problem}", at + 1))
        };
        let (mut inputs, mut term, mut in_output) = (Vec::new(), Term::default(), false);
        let chars: Vec<char> = text.chars().collect();
        let mut at = 0;
        while at < chars.len() {
            match chars[at] {
                ' ' => {}
                label if label.is_ascii_alphabetic() => {
                    let label = label as Label;
                    if in_output && !inputs.iter().any(|term: &Term| term.labels.contains(&label)) {
                        return Err(fault(at, "this label is in no operand"));
                    }
                    term.labels.push(label);
                }
                '.' if chars[at..].starts_with(&['.', '.', '.']) => {
                    if term.ellipsis.replace(term.labels.len()).is_some() {
                        return Err(fault(at, "a term can have one `...` only"));
                    }
                    at += 2;
                }
                ',' if !in_output => inputs.push(std::mem::take(&mut term)),
                '-' if !in_output && chars.get(at + 1) == Some(&'>') => {
                    inputs.push(std::mem::take(&mut term));
                    in_output = true;
                    at += 1;
                }
                other => {
                    let problem = format!("expected a letter, `...`, `,` or `->`, not `{other}`");
                    return Err(fault(at, &problem));
                }
            }
            at += 1;
        }
        let output = in_output.then(|| std::mem::take(&mut term));
        if !in_output {
            inputs.push(term);
        }
        Ok(Equation { text: text.to_owned(), inputs, output })
    }

    /// Labels every axis of operands of these shapes (-1 where unknown).
    ///
    /// # Errors
    /// When the operands do not fit the equation.
    pub(super) fn label(&self, operands: &[&[i64]]) -> Result<Labels> {
        let fault = |problem: String| Error::kernel(format!("equation `{}`: {problem}", self.text));
        if operands.len() != self.inputs.len() {
            let (terms, given) = (self.inputs.len(), operands.len());
            return Err(fault(format!("it has {terms} terms, but {given} operands are given")));
        }
        let mut labels = Labels { inputs: Vec::new(), output: Vec::new(), sizes: Vec::new() };
        let mut unnamed = 0;
        for (i, (term, dims)) in self.inputs.iter().zip(operands).enumerate() {
            let count = match (dims.len().checked_sub(term.labels.len()), term.ellipsis) {
                (Some(count), Some(_)) => count,
                (Some(0), None) => 0,
                _ => {
                    let named = term.labels.len();
                    return Err(fault(format!(
                        "term {i} names {named} axes, but operand {i} has shape {dims:?}"
                    )));
                }
            };
            unnamed = unnamed.max(count);
            let axes = term.expand(count);
            for (label, size) in axes.iter().zip(*dims) {
                labels.add(*label, *size).map_err(|other| {
                    fault(format!(
                        "axis {} is {other}, but {size} in operand {i} of shape {dims:?}",
                        name(*label)
                    ))
                })?;
            }
            labels.inputs.push(axes);
        }
        labels.output = match &self.output {
            Some(term) => term.expand(unnamed),
            None => self.implied_output().expand(unnamed),
        };
        Ok(labels)
    }

    fn implied_output(&self) -> Term {
        let all = || self.inputs.iter().flat_map(|term| &term.labels);
        let once = |label: &&Label| all().filter(|other| other == label).count() == 1;
        let mut labels: Vec<Label> = all().filter(once).copied().collect();
        labels.sort_unstable();
        Term { labels, ellipsis: Some(0) }
    }
}

impl Term {
    /// The labels with `count` ones in place of `...`.
    fn expand(&self, count: usize) -> Vec<Label> {
        let Some(at) = self.ellipsis else { return self.labels.clone() };
        let unnamed = (0..count).rev().map(|i| FIRST_UNNAMED + i as Label);
        let (before, after) = self.labels.split_at(at);
        before.iter().copied().chain(unnamed).chain(after.iter().copied()).collect()
    }
}

impl Labels {
    /// Notes the size of an axis; the error is another size that it has.
    fn add(&mut self, label: Label, size: i64) -> std::result::Result<(), i64> {
        let Some((_, known)) = self.sizes.iter_mut().find(|(other, _)| *other == label) else {
            self.sizes.push((label, size));
            return Ok(());
        };
        *known = match (*known, size) {
            (known, size) if known == size => known,
            // Of two sizes, one of them 1, the other counts, known or not.
            (1, other) | (other, 1) if is_unnamed(label) => other,
            (known, -1) | (-1, known) => known,
            (known, _) => return Err(known),
        };
        Ok(())
    }
}

fn name(label: Label) -> String {
    if is_unnamed(label) { "of `...`".to_owned() } else { format!("`{}`", char::from(label)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(text: &str, operands: &[&[i64]]) -> Result<Vec<i64>> {
        let labels = Equation::parse(text)?.label(operands)?;
        Ok(labels.output.iter().map(|label| labels.size(*label)).collect())
    }

    #[test]
    fn outputs_are_given_or_implied() {
        assert_eq!(output("ij,jk->ik", &[&[2, 3], &[3, 4]]).unwrap(), [2, 4]);
        assert_eq!(output(" ij , jk ", &[&[2, 3], &[3, 4]]).unwrap(), [2, 4]);
        assert_eq!(output("ba", &[&[2, 3]]).unwrap(), [3, 2]);
        assert_eq!(output("ii", &[&[3, 3]]).unwrap(), [0i64; 0]);
        assert_eq!(output("...ji", &[&[5, 2, 3]]).unwrap(), [5, 3, 2]);
        assert_eq!(
            output("...ij,...jk->...ik", &[&[7, 1, 2, 3], &[4, 3, 5]]).unwrap(),
            [7, 4, 2, 5]
        );
        assert_eq!(output("i...,i", &[&[-1, 2], &[3]]).unwrap(), [2]);
        assert_eq!(output("...,...", &[&[1, -1, 4], &[-1, 1, -1]]).unwrap(), [-1, -1, 4]);
        assert_eq!(output("ij->ji", &[&[-1, 2]]).unwrap(), [2, -1]);
    }

    #[test]
    fn faults_name_equation_and_position() {
        let problem =
            |text: &str, operands: &[&[i64]]| output(text, operands).unwrap_err().to_string();
        let pair: &[&[i64]] = &[&[2, 3], &[3, 4]];
        assert_eq!(
            problem("ij,j1->i", pair),
            "equation `ij,j1->i`, character 5: expected a letter, `...`, `,` or `->`, not `1`"
        );
        assert_eq!(
            problem("ij,jk->iz", pair),
            "equation `ij,jk->iz`, character 9: this label is in no operand"
        );
        assert_eq!(
            problem("...i...,jk->i", pair),
            "equation `...i...,jk->i`, character 5: a term can have one `...` only"
        );
        assert!(problem("i.j,jk", pair).contains("character 2"));
        assert!(problem("ij->j->i", pair).contains("character 6"));
        assert!(problem("ij->j,i", pair).contains("character 6"));
        assert_eq!(
            problem("ij,ik->jk", pair),
            "equation `ij,ik->jk`: axis `i` is 2, but 3 in operand 1 of shape [3, 4]"
        );
        assert_eq!(
            problem("ij->i", pair),
            "equation `ij->i`: it has 1 terms, but 2 operands are given"
        );
        assert_eq!(
            problem("ijk,jk->i", pair),
            "equation `ijk,jk->i`: term 0 names 3 axes, but operand 0 has shape [2, 3]"
        );
    }
}
