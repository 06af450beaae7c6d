//! Reads the text form; `text.rs` describes it.

use super::cursor::Cursor;
use super::value;
use crate::{Block, DType, Error, Op, Param, Program, Regularizer, Result, Slots, Var, VarKind};

/// A whole program.
pub(super) fn program(text: &str) -> Result<Program> {
    let mut program = Program { blocks: Vec::new().into(), ..Program::default() };
    let mut open: Option<Block> = None;
    let mut last = 0;
    for (index, line) in text.lines().enumerate() {
        last = index + 1;
        let mut cursor = Cursor::new(last, line);
        cursor.skip_spaces();
        if cursor.rest().is_empty() || cursor.rest().starts_with('#') {
            continue;
        }
        match open.as_mut() {
            None if cursor.eat("{") => open = Some(block_start(&mut cursor, program.blocks.len())?),
            None => header(&mut cursor, &mut program)?,
            Some(_) if cursor.eat("}") => program.blocks.extend(open.take()),
            Some(block) => block_line(&mut cursor, block)?,
        }
        cursor.expect_end()?;
    }
    let problem = match open {
        Some(block) => format!("block {} is not closed: expected `}}`", block.idx),
        None if program.blocks.is_empty() => {
            "expected `{ // block 0`: there is no block".to_owned()
        }
        None => return Ok(program),
    };
    Err(Error::Text { line: last.max(1), column: 1, problem })
}

/// A line before the first block.
fn header(cursor: &mut Cursor<'_>, program: &mut Program) -> Result<()> {
    if cursor.eat_word("version") {
        program.version = cursor.number("a version number")?;
    } else if cursor.eat_word("random_seed") {
        program.random_seed = cursor.number("a seed")?;
    } else if cursor.eat_word("op_versions") {
        cursor.expect("{")?;
        cursor.items("}", |cursor| {
            let op = cursor.name("an op type")?;
            cursor.expect(":")?;
            program.op_versions.insert(op, cursor.number("a version number")?);
            Ok(())
        })?;
    } else {
        return cursor.expected("`{ // block`, `version`, `op_versions` or `random_seed`");
    }
    Ok(())
}

/// What follows the `{` of block `idx`.
fn block_start(cursor: &mut Cursor<'_>, idx: usize) -> Result<Block> {
    cursor.expect("//")?;
    cursor.expect("block")?;
    if cursor.number::<usize>("the number of the block")? != idx {
        return cursor.fail(format!("expected block {idx}: blocks are numbered in order"));
    }
    let mut block = Block::new(idx, None);
    while cursor.eat(",") {
        if cursor.eat_word("parent") {
            block.parent = Some(outer(cursor, idx)?);
        } else if cursor.eat_word("forward") {
            block.forward = Some(outer(cursor, idx)?);
        } else {
            return cursor.expected("`parent` or `forward`");
        }
    }
    Ok(block)
}

/// The number of a block before block `idx`; loops of parents are thus impossible.
fn outer(cursor: &mut Cursor<'_>, idx: usize) -> Result<usize> {
    let outer = cursor.number("the number of a block")?;
    if outer >= idx {
        return cursor.fail(format!("block {outer} does not come before block {idx}"));
    }
    Ok(outer)
}

/// One declaration or op.
fn block_line(cursor: &mut Cursor<'_>, block: &mut Block) -> Result<()> {
    let is_target = cursor.eat_word("target");
    cursor.skip_spaces();
    if is_target || cursor.rest().starts_with('{') {
        block.ops.push(Op { is_target, ..op(cursor)? });
        return Ok(());
    }
    let var = var(cursor)?;
    if block.vars.contains_key(&var.name) {
        return cursor.fail(format!("variable `{}` is declared twice", var.name));
    }
    block.add_var(var);
    Ok(())
}

fn var(cursor: &mut Cursor<'_>) -> Result<Var> {
    let persistable = cursor.eat_word("persist");
    let param = if cursor.eat_word("var") {
        None
    } else {
        let trainable = cursor.eat_word("trainable");
        if !cursor.eat_word("param") {
            return cursor.expected("a declaration (`var`, `param`), an op (`{Out=…} = …`) or `}`");
        }
        Some(Param { trainable, ..Param::default() })
    };
    let name = cursor.name("the name of a variable")?;
    cursor.expect(":")?;
    cursor.skip_spaces();
    let before = cursor.rest();
    let kind = before.split(|c: char| !c.is_ascii_uppercase() && c != '_').next().unwrap_or("");
    let Some(kind) = VarKind::from_name(kind) else {
        return cursor.expected("a kind of variable such as `LOD_TENSOR`");
    };
    cursor.expect(kind.name())?;
    let mut var = Var { kind, persistable, param, ..Var::tensor(name, DType::F32, []) };
    while cursor.eat(".") {
        field(cursor, &mut var)?;
    }
    Ok(var)
}

/// One `.name(value)` after the kind of a variable.
fn field(cursor: &mut Cursor<'_>, var: &mut Var) -> Result<()> {
    let name = cursor.rest().split('(').next().unwrap_or("").trim_end();
    let known = ["shape", "dtype", "stop_gradient", "lod_level", "need_check_feed"].contains(&name);
    let of_param = ["learning_rate", "regularizer", "need_clip"].contains(&name);
    if !known && !of_param {
        return cursor.expected("a field such as `shape(`, `dtype(` or `stop_gradient(`");
    }
    cursor.expect(name)?;
    cursor.expect("(")?;
    match name {
        "shape" => {
            var.shape.clear();
            return cursor.items(")", |cursor| {
                var.shape.push(cursor.number("a dimension")?);
                Ok(())
            });
        }
        "dtype" => var.dtype = cursor.word_as("an element type", DType::from_name)?,
        "stop_gradient" => var.stop_gradient = cursor.truth()?,
        "lod_level" => var.lod_level = cursor.number("a number of levels")?,
        "need_check_feed" => var.need_check_feed = cursor.truth()?,
        _ => match &mut var.param {
            Some(param) => param_field(cursor, name, param)?,
            None => return cursor.fail(format!("only a `param` has `{name}`")),
        },
    }
    cursor.expect(")")
}

fn param_field(cursor: &mut Cursor<'_>, name: &str, param: &mut Param) -> Result<()> {
    match name {
        "learning_rate" => param.learning_rate = cursor.number("a number")?,
        "need_clip" => param.need_clip = cursor.truth()?,
        _ => {
            let l1 = cursor.word_as("`L1` or `L2`", |word| match word {
                "L1" => Some(true),
                "L2" => Some(false),
                _ => None,
            })?;
            cursor.expect(",")?;
            let coeff = cursor.number("a coefficient")?;
            let regularizer = if l1 { Regularizer::L1(coeff) } else { Regularizer::L2(coeff) };
            param.regularizer = Some(regularizer);
        }
    }
    Ok(())
}

/// `{Out=['y']} = mul(inputs={X=['x']}, axis = 1)  # at file:line`.
fn op(cursor: &mut Cursor<'_>) -> Result<Op> {
    let outputs = slots(cursor)?;
    cursor.expect("=")?;
    let mut op = Op::new(cursor.name("an op type")?);
    op.outputs = outputs;
    cursor.expect("(")?;
    cursor.expect("inputs")?;
    cursor.expect("=")?;
    op.inputs = slots(cursor)?;
    if cursor.eat(",") {
        cursor.items(")", |cursor| attr(cursor, &mut op))?;
    } else {
        cursor.expect(")")?;
    }
    if cursor.eat("#") {
        cursor.expect("at")?;
        op.site = Some(cursor.rest_of_line().to_owned()).filter(|site| !site.is_empty());
    }
    Ok(op)
}

fn attr(cursor: &mut Cursor<'_>, op: &mut Op) -> Result<()> {
    let name = cursor.name("the name of an attribute")?;
    cursor.expect("=")?;
    if op.attrs.contains_key(&name) {
        return cursor.fail(format!("attribute `{name}` is given twice"));
    }
    op.attrs.insert(name, value::attr(cursor)?);
    Ok(())
}

/// `{X=['a'], Y=['b', 'c']}`.
fn slots(cursor: &mut Cursor<'_>) -> Result<Slots> {
    let mut slots = Slots::new();
    cursor.expect("{")?;
    cursor.items("}", |cursor| {
        let slot = cursor.name("the name of a slot")?;
        if slots.contains_key(&slot) {
            return cursor.fail(format!("slot `{slot}` is given twice"));
        }
        cursor.expect("=")?;
        cursor.expect("[")?;
        let mut vars = Vec::new();
        cursor.items("]", |cursor| {
            vars.push(cursor.quoted()?);
            Ok(())
        })?;
        slots.insert(slot, vars);
        Ok(())
    })?;
    Ok(slots)
}
