//! `tdm_sampler`: for each leaf the nodes on its way from the root, layer by layer, each with
//! `neg_samples_num_list` others of its layer that are drawn at random, no two alike.
//!
//! `Travel` has the way of each leaf, 0 where it has ended; `Layer` the nodes of all layers, cut by
//! `layer_offset_lod`. Places without a node have `Mask` 0.

use super::row_of;
use crate::ops::prelude::*;
use crate::ops::random::{Draw, below};
use crate::ops::shape::given::extend_integers;

pub(super) const DEF: OpDef = OpDef::new("tdm_sampler", kernel)
    .inputs(&[Slot::one("X"), Slot::one("Travel"), Slot::one("Layer")])
    .outputs(&[Slot::one("Out"), Slot::maybe("Labels"), Slot::one("Mask")])
    .attrs(&[
        attr::bool("output_positive", true),
        attr::ints("neg_samples_num_list", &[]),
        attr::ints("layer_offset_lod", &[]),
        attr::int("seed", 0),
        attr::int("dtype", DType::I32.code()),
    ])
    .infer(infer);

/// What the attributes say.
struct Layers {
    /// How many others are drawn in each layer.
    negatives: Vec<usize>,
    /// Where the nodes of each layer begin, and the end.
    offsets: Vec<usize>,
    positive: bool,
}

impl Layers {
    fn of(op: &OpView<'_>) -> Result<Layers> {
        let sizes = |name: &str| -> Result<Vec<usize>> {
            let given = op.longs(name)?;
            let sizes = given.iter().map(|size| usize::try_from(*size));
            sizes.collect::<std::result::Result<_, _>>().map_err(|_| {
                Error::kernel(format!("`{name}` must not have negative numbers, but is {given:?}"))
            })
        };
        let (negatives, offsets) = (sizes("neg_samples_num_list")?, sizes("layer_offset_lod")?);
        if offsets.len() != negatives.len() + 1 || !offsets.is_sorted() {
            return Err(Error::kernel(format!(
                "`layer_offset_lod` must rise and have a number more than \
                 `neg_samples_num_list`, but they are {offsets:?} and {negatives:?}"
            )));
        }
        for (layer, (count, pair)) in negatives.iter().zip(offsets.windows(2)).enumerate() {
            if *count >= pair[1] - pair[0] {
                let nodes = pair[1] - pair[0];
                return Err(Error::kernel(format!(
                    "layer {layer} has {nodes} nodes: `neg_samples_num_list` must ask for fewer, \
                     not {count}"
                )));
            }
        }
        Ok(Layers { negatives, offsets, positive: op.bool("output_positive")? })
    }

    /// How many nodes belong to each leaf.
    fn width(&self) -> usize {
        self.negatives.iter().map(|count| count + usize::from(self.positive)).sum()
    }
}

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (x, travel, layers) = (cx.input("X")?, cx.input("Travel")?, Layers::of(cx.op())?);
    let count = layers.negatives.len() as i64;
    if travel.rank() != 2 || same_dim(travel.dims[1], count).is_err() {
        return Err(Error::kernel(format!(
            "`Travel` must have a column for each of {count} layers, but its shape is {:?}",
            travel.dims
        )));
    }
    let column = matches!(x.dims[..], [_] | [_, 1 | -1]);
    if !column {
        return Err(Error::kernel(format!("`X` must be a column, not of shape {:?}", x.dims)));
    }
    let out = Meta::new(cx.op().dtype("dtype")?, [x.dims[0], layers.width() as i64]);
    for slot in ["Out", "Labels", "Mask"] {
        cx.set(slot, out.clone());
    }
    Ok(())
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let inputs = [op.input("X")?, op.input("Travel")?, op.input("Layer")?];
    let (mut out, mut mask) = (op.output("Out")?, op.output("Mask")?);
    let (mut labels, layers, draw) = (op.maybe_output("Labels"), Layers::of(op)?, Draw::new(op)?);
    let mut given: [Vec<i64>; 3] = Default::default();
    let mut samples = Samples::default();
    Ok(Box::new(move |run| {
        for (given, input) in given.iter_mut().zip(inputs) {
            given.clear();
            extend_integers(given, run.tensor(input)?)?;
        }
        let [leaves, travel, nodes] = &given;
        samples.draw(&layers, leaves, travel, nodes, draw.step(run.step))?;
        write(run.out(&mut out)?, &samples.nodes)?;
        write(run.out(&mut mask)?, &samples.mask)?;
        labels.as_mut().map_or(Ok(()), |labels| write(run.out(labels)?, &samples.labels))
    }))
}

fn write(out: &mut Tensor, values: &[i64]) -> Result<()> {
    dispatch!(out.dtype(), T in [i32, i64] => {
        let places = out.as_mut_slice::<T>()?.iter_mut();
        places.zip(values).for_each(|(place, value)| *place = *value as T);
        Ok(())
    }, else => Err(Error::kernel(format!("nodes are int32 or int64, not {}", out.dtype()))))
}

/// What is drawn in a step.
#[derive(Default)]
struct Samples {
    nodes: Vec<i64>,
    labels: Vec<i64>,
    mask: Vec<i64>,
    /// The nodes of a layer by their places, shuffled as far as they are drawn.
    order: Vec<usize>,
}

impl Samples {
    fn draw(
        &mut self,
        layers: &Layers,
        leaves: &[i64],
        travel: &[i64],
        nodes: &[i64],
        random: crate::random::Philox,
    ) -> Result<()> {
        if layers.offsets.last().is_some_and(|end| *end > nodes.len()) {
            return Err(Error::kernel(format!(
                "`layer_offset_lod` ends at {:?}, but `Layer` has {} nodes",
                layers.offsets.last(),
                nodes.len()
            )));
        }
        [&mut self.nodes, &mut self.labels, &mut self.mask].into_iter().for_each(Vec::clear);
        let count = layers.negatives.len();
        let mut turn = 0;
        for leaf in leaves {
            let row = row_of(*leaf, travel.len() / count.max(1), "leaf")?;
            for (layer, positive) in travel[row * count..][..count].iter().enumerate() {
                let layer_nodes = &nodes[layers.offsets[layer]..layers.offsets[layer + 1]];
                let negatives = layers.negatives[layer];
                if *positive == 0 {
                    let empty = negatives + usize::from(layers.positive);
                    self.push(std::iter::repeat_n(0, empty), 0, 0);
                    continue;
                }
                if layers.positive {
                    self.push(std::iter::once(*positive), 1, 1);
                }
                self.others(layer_nodes, *positive, negatives, random, &mut turn)?;
            }
        }
        Ok(())
    }

    fn push(&mut self, nodes: impl Iterator<Item = i64>, label: i64, mask: i64) {
        self.nodes.extend(nodes);
        self.labels.resize(self.nodes.len(), label);
        self.mask.resize(self.nodes.len(), mask);
    }

    /// Draws `count` of `nodes` but `positive`, as a shuffle would that is left after so many.
    fn others(
        &mut self,
        nodes: &[i64],
        positive: i64,
        count: usize,
        random: crate::random::Philox,
        turn: &mut u64,
    ) -> Result<()> {
        let others = |at: &usize| nodes[*at] != positive;
        self.order.clear();
        self.order.extend((0..nodes.len()).filter(others));
        if self.order.len() < count {
            let left = self.order.len();
            return Err(Error::kernel(format!(
                "a layer has {left} nodes other than {positive}, and {count} are to be drawn"
            )));
        }
        for at in 0..count {
            let left = (self.order.len() - at) as u64;
            self.order.swap(at, at + below(random.u64(*turn), left) as usize);
            *turn += 1;
        }
        let order = std::mem::take(&mut self.order);
        self.push(order[..count].iter().map(|at| nodes[*at]), 0, 1);
        self.order = order;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    fn op(negatives: Vec<i32>) -> Op {
        let op = Op::new("tdm_sampler").input("X", ["x"]).input("Travel", ["travel"]);
        let op = op.input("Layer", ["layer"]).attr("neg_samples_num_list", negatives);
        let op = op.attr("layer_offset_lod", vec![0, 2, 6]).attr("seed", 3);
        op.output("Out", ["out"]).output("Labels", ["labels"]).output("Mask", ["mask"])
    }

    fn values(leaves: &[i64]) -> HashMap<String, Value> {
        let travel = [1i32, 3, 1, 4, 2, 5, 2, 0];
        HashMap::from([
            ("x".to_owned(), Tensor::from_slice([leaves.len(), 1], leaves).unwrap().into()),
            ("travel".to_owned(), Tensor::from_slice([4, 2], &travel).unwrap().into()),
            (
                "layer".to_owned(),
                Tensor::from_slice([6, 1], &[1i32, 2, 3, 4, 5, 6]).unwrap().into(),
            ),
        ])
    }

    #[test]
    fn each_layer_has_its_node_and_others_of_it() {
        let leaves: Vec<i64> = (0..400).map(|i| i % 4).collect();
        let mut values = values(&leaves);
        run_once(&op(vec![1, 2]), &mut values).unwrap();
        let of = |name: &str| values[name].tensor().unwrap().as_slice::<i32>().unwrap().to_vec();
        let (out, labels, mask) = (of("out"), of("labels"), of("mask"));
        let mut met = std::collections::HashSet::new();
        for (at, leaf) in leaves.iter().enumerate() {
            let (out, labels) = (&out[at * 5..][..5], &labels[at * 5..][..5]);
            assert_eq!(out[0] + out[1], 3, "both nodes of the first layer");
            if *leaf == 3 {
                assert_eq!((&out[2..], labels), (&[0, 0, 0][..], &[1, 0, 0, 0, 0][..]));
                assert_eq!(mask[at * 5..][..5], [1, 1, 0, 0, 0]);
                continue;
            }
            assert_eq!(labels, [1, 0, 1, 0, 0]);
            assert_eq!(out[2], 3 + *leaf as i32);
            assert!(out[3] != out[4] && out[3] != out[2] && out[4] != out[2], "{out:?}");
            assert!(out[3..].iter().all(|node| (3..=6).contains(node)));
            met.insert((out[2], out[3]));
        }
        assert_eq!(met.len(), 9, "every pair comes");
    }

    #[test]
    fn what_does_not_fit_the_tree_is_refused() {
        let error = run_once(&op(vec![2, 0]), &mut values(&[0])).unwrap_err().to_string();
        assert!(error.contains("layer 0 has 2 nodes"), "{error}");
        let error = run_once(&op(vec![0, 0]), &mut values(&[4])).unwrap_err().to_string();
        assert!(error.contains("leaf 4 lies outside the tree"), "{error}");
    }
}
