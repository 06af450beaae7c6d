//! `hash`: each row of integers as numbers below `mod_by`, `num_hash` of them, by XXH64 with the
//! seeds 0, 1, ….

use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("hash", kernel)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[attr::int("num_hash", 1), attr::long("mod_by", 100_000)])
    .infer(infer)
    .lod_from("X")
    .split(SplitRule::RowWise);

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (x, count, modulus) = (cx.input("X")?, cx.op().i64("num_hash")?, cx.op().i64("mod_by")?);
    let [rows, _] = x.dims[..] else {
        return Err(Error::kernel(format!("`X` must have rank 2, not shape {:?}", x.dims)));
    };
    if count < 1 || modulus < 1 {
        return Err(Error::kernel(format!(
            "`num_hash` and `mod_by` must be 1 or more, not {count} and {modulus}"
        )));
    }
    let out = x.with_dims([rows, count, 1]);
    cx.set("Out", out);
    Ok(())
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out) = (op.input("X")?, op.output("Out")?);
    let (count, modulus) = (op.i64("num_hash")? as usize, op.i64("mod_by")?.cast_unsigned());
    Ok(Box::new(move |run| {
        let x = run.tensor(x)?;
        let bytes = x.dims().tail(1) * x.dtype().size();
        dispatch!(x.dtype(), T in [i64, i32] => {
            let out = run.set::<T>(&mut out)?.chunks_exact_mut(count);
            for (row, out) in out.enumerate() {
                let given = &x.as_bytes()[row * bytes..][..bytes];
                for (seed, out) in (0..).zip(out) {
                    *out = (xxh64(given, seed) % modulus) as T;
                }
            }
            Ok(())
        }, else => Err(Error::kernel(format!("ids are int64 or int32, not {}", x.dtype()))))
    }))
}

const PRIMES: [u64; 5] = [
    0x9e37_79b1_85eb_ca87,
    0xc2b2_ae3d_27d4_eb4f,
    0x1656_67b1_9e37_79f9,
    0x85eb_ca77_c2b2_ae63,
    0x27d4_eb2f_1656_67c5,
];

/// The hash XXH64 of `bytes`, as its specification defines it.
fn xxh64(bytes: &[u8], seed: u64) -> u64 {
    let [p1, p2, p3, p4, p5] = PRIMES;
    let (stripes, mut rest) = bytes.as_chunks::<32>();
    let mut hash = if stripes.is_empty() {
        seed.wrapping_add(p5)
    } else {
        let mut lanes = [
            seed.wrapping_add(p1).wrapping_add(p2),
            seed.wrapping_add(p2),
            seed,
            seed.wrapping_sub(p1),
        ];
        for stripe in stripes {
            for (lane, word) in lanes.iter_mut().zip(stripe.as_chunks::<8>().0) {
                *lane = round(*lane, u64::from_le_bytes(*word));
            }
        }
        let turned = lanes.iter().zip([1, 7, 12, 18]).map(|(lane, by)| lane.rotate_left(by));
        let sum = turned.fold(0u64, u64::wrapping_add);
        let merge =
            |hash: u64, lane: &u64| (hash ^ round(0, *lane)).wrapping_mul(p1).wrapping_add(p4);
        lanes.iter().fold(sum, merge)
    };
    hash = hash.wrapping_add(bytes.len() as u64);
    while let Some((word, left)) = rest.split_first_chunk::<8>() {
        hash ^= round(0, u64::from_le_bytes(*word));
        hash = hash.rotate_left(27).wrapping_mul(p1).wrapping_add(p4);
        rest = left;
    }
    if let Some((word, left)) = rest.split_first_chunk::<4>() {
        hash ^= u64::from(u32::from_le_bytes(*word)).wrapping_mul(p1);
        hash = hash.rotate_left(23).wrapping_mul(p2).wrapping_add(p3);
        rest = left;
    }
    for byte in rest {
        hash = (hash ^ u64::from(*byte).wrapping_mul(p5)).rotate_left(11).wrapping_mul(p1);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(p2);
    hash = (hash ^ (hash >> 29)).wrapping_mul(p3);
    hash ^ (hash >> 32)
}

fn round(lane: u64, word: u64) -> u64 {
    let [p1, p2, ..] = PRIMES;
    lane.wrapping_add(word.wrapping_mul(p2)).rotate_left(31).wrapping_mul(p1)
}

#[cfg(test)]
mod tests {
    #[test]
    fn hashes_are_those_of_the_specification() {
        // Published test values: nothing, and 101 bytes of a known generator with two seeds.
        assert_eq!(super::xxh64(&[], 0), 0xef46_db37_51d8_e999);
        let mut state = 2_654_435_761u32;
        let bytes: Vec<u8> = (0..101)
            .map(|_| {
                let byte = (state >> 24) as u8;
                state = state.wrapping_mul(state);
                byte
            })
            .collect();
        assert_eq!(super::xxh64(&bytes[..1], 0), 0x4fce_394c_c889_52d8);
        assert_eq!(super::xxh64(&bytes[..14], 0), 0xcffa_8db8_81bc_3a3d);
        assert_eq!(super::xxh64(&bytes, 0), 0x0eab_5433_84f8_78ad);
    }
}
