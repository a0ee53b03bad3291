"""Compiled programs compute the same bits as polars' expressions."""

import dataclasses
import math

import numpy as np
import polars as pl
import pytest

from frameboost.engines import programs
from frameboost.engines.contract import Cumulative
from frameboost.engines.elementary import exponentials, logarithms
from frameboost.engines.programs import OPCODES, compile_program, compute_few, compute_gh, compute_rows, compute_shares
from frameboost.expressions.expression import Expression
from frameboost.losses.built_in import get_loss
from frameboost.metrics.metric import Metric, get_metrics
from frameboost.parameters.parameters import Parameters
from frameboost.runtime.workers import Workers
from tests.support.cases import cases
from tests.support.objectives import CASES

NAMES = ("label", "margin", "weight")
NAME_OF = {number: name for name, number in OPCODES.items()}
EXPRESSIONS = [
    "1 / (1 + EXP(-margin)) - label",
    "LN(ABS(label)) * SQRT(ABS(margin))",
    "CASE WHEN label > margin THEN 2 * label WHEN label = 1 OR margin <= -1 THEN -margin ELSE FLOOR(label / 3) END",
    "CASE WHEN NOT (label >= 0 AND margin <> 0) THEN 1 ELSE 0 END",
    "GREATEST(LEAST(label, margin), 0.25) - SIGN(margin)",
    "SQRT(ABS(label)) + label * margin - label * margin / 7",
    "CASE WHEN margin < 0 THEN EXP(margin) ELSE 1 - EXP(-margin) END",
    "half * 3 + once",
    "label * weight",
    # where there is NaN: larger than any number, and equal to itself
    "CASE WHEN LN(label) > margin THEN 1 WHEN LN(margin) < LN(label) THEN 2 ELSE 3 END",
    "CASE WHEN LN(label) >= margin THEN 1 WHEN LN(margin) <= LN(label) THEN 2 ELSE 3 END",
    "CASE WHEN LN(label) = LN(margin) THEN 1 WHEN SQRT(label) <> LN(margin) THEN 2 ELSE 3 END",
    "CASE WHEN margin > LN(label) THEN 1 WHEN margin < SQRT(label) THEN 2 WHEN margin >= LN(label) THEN 3 ELSE 4 END",
    "GREATEST(LN(label), margin, SQRT(margin)) + LEAST(margin, LN(label))",
]
TERMS = {"half": Expression("margin / 2"), "once": Expression("half - 1", (*NAMES, "half"))}


def computed(wanted, columns, n_rows, terms=TERMS, known=None, offsets=None):
    program = compile_program(wanted, terms, {} if known is None else known)
    addresses = np.array([columns[name].ctypes.data for name in program.columns], dtype=np.int64)
    pairs = np.zeros((len(wanted) // 2, n_rows, 2))
    middle = n_rows // 3
    given = program.for_kernels, program.constants, addresses, program.results
    offsets = np.zeros(len(wanted)) if offsets is None else offsets
    found = [compute_gh(*given, first, last, offsets, pairs) for first, last in ((0, middle), (middle, n_rows))]
    largest, totals = (
        function(parts, axis=0) for function, parts in zip((np.max, np.sum), zip(*found, strict=True), strict=True)
    )
    of_few = np.zeros(pairs.shape)
    largest_of_few, totals_of_few = compute_few(program, [columns[name] for name in program.columns], offsets, of_few)
    np.testing.assert_array_equal(of_few.view(np.int64), pairs.view(np.int64))
    np.testing.assert_array_equal(largest_of_few, largest)
    if offsets.all():  # sums are exact on grids
        np.testing.assert_array_equal(totals_of_few, totals)
    else:
        by_row, read = np.empty((n_rows, len(wanted))), np.array([columns[name] for name in program.columns])
        compute_rows(program.instructions, program.constants, program.results, read.reshape(-1, n_rows), by_row)
        by_row = by_row.reshape(n_rows, -1, 2).swapaxes(0, 1) + 0.0  # as offsets of 0 are added to pairs
        np.testing.assert_array_equal(by_row.view(np.int64), pairs.view(np.int64))
    return np.moveaxis(pairs, 2, 1).reshape(len(wanted), n_rows), largest, totals


@pytest.mark.parametrize("scale", [1e-20, 1e-3, 1.0, 30.0, 700.0, 1e4])
def test_exponentials_have_the_bits_of_the_c_library(scale):
    values = np.random.default_rng(5).normal(size=512) * scale
    values[:3] = 0.0, -0.0, scale
    out = np.empty(512)
    exponentials(values, out, 512)
    limit = math.log(np.finfo(float).max)
    expected = [math.exp(x) if x <= limit else math.inf for x in values.tolist()]
    assert out.tolist() == expected or not programs.has_exact_exponentials()
    values[7], values[9] = np.nan, -np.inf
    exponentials(values, out, 500)
    np.testing.assert_array_equal(out[:10], [*expected[:7], np.nan, expected[8], 0.0])


@pytest.mark.parametrize("width", [1e-12, 0.05, 0.5, 3.0, 690.0])
def test_logarithms_have_the_bits_of_the_c_library(width):
    values = np.exp(np.random.default_rng(5).uniform(-width, width, 512))
    values[:3] = 1.0, np.nextafter(1.0, 0.0), 2.0
    out, expected = np.empty(512), list(map(math.log, values.tolist()))
    logarithms(values, out, 512)
    assert out.tolist() == expected or not programs.has_exact_logarithms()
    values[7:12] = np.nan, np.inf, 0.0, -1.0, 5e-324
    logarithms(values, out, 500)
    np.testing.assert_array_equal(out[:12], [*expected[:7], np.nan, np.inf, -np.inf, np.nan, math.log(5e-324)])


def test_another_c_library_is_called_itself(monkeypatch):
    program = compile_program([Expression("EXP(margin)"), Expression("-EXP(-margin)")], {}, {})
    monkeypatch.setattr(programs, "has_exact_exponentials", lambda: False)
    assert program.for_kernels.tolist() == program.instructions.tolist()
    monkeypatch.setattr(programs, "has_exact_exponentials", lambda: True)
    replaced = dataclasses.replace(program).for_kernels
    names = [[NAME_OF[number] for number in own[:, 0]] for own in (program.instructions, replaced)]
    assert [name.replace("EXP", "EXP_AT_ONCE") for name in names[0]] == names[1]


def test_threads_share_the_rows():
    values = {"margin": np.random.default_rng(0).normal(size=5000), "label": np.arange(5000.0) % 2}
    pair = [Expression("1 / (1 + EXP(-margin)) - label"), Expression("margin * margin")]
    found, largest, totals = computed(pair, values, 5000, offsets=np.array([1.5 * 2.0**52 / 64, 1.5 * 2.0**52 / 64]))
    program = compile_program(pair, {}, {})
    addresses = np.array([values[name].ctypes.data for name in program.columns], dtype=np.int64)
    pairs, of_shares = np.zeros((1, 5000, 2)), np.zeros((2, 3, 2))
    team = Workers(2).team(3)
    offsets = np.array([1.5 * 2.0**52 / 64] * 2)
    compute_shares(
        team, program.instructions, program.constants, addresses, program.results, offsets, pairs, *of_shares
    )
    np.testing.assert_array_equal(pairs[0].T, found)
    np.testing.assert_array_equal(of_shares[0].max(axis=0), largest)
    np.testing.assert_array_equal(of_shares[1].sum(axis=0), totals)


@cases("text", EXPRESSIONS)
def test_programs_compute_the_bits_of_polars(text):
    rng = np.random.default_rng(0)
    values = {name: rng.normal(size=1500) * 3 for name in NAMES}
    values["label"][:20], values["margin"][10:30] = 0.0, [-0.0, 1.0] * 10
    names = (*NAMES, "half", "once") if "half" in text else NAMES
    pair = [Expression(text, names), Expression("1", ())]
    found, largest, _ = computed(pair, values, 1500)
    frame = pl.DataFrame(values)
    for name, term in TERMS.items():
        frame = frame.with_columns(term.to_polars().alias(name))
    expected = frame.select(pair[0].to_polars().cast(pl.Float64)).to_series().to_numpy()
    np.testing.assert_array_equal(found[0], expected)
    np.testing.assert_array_equal(found[1], np.ones(1500))
    np.testing.assert_array_equal(largest, [abs(expected).max(), 1.0])  # NaN if one is


def test_results_are_put_on_their_grids_and_summed():
    values = {"margin": np.random.default_rng(0).normal(size=1500)}
    pair = [Expression("margin"), Expression("margin * margin")]
    offsets = np.array([1.5 * 2.0**52 / 16, 1.5 * 2.0**52 / 4])
    found, largest, totals = computed(pair, values, 1500, offsets=offsets)
    expected = [np.round(values["margin"] * 16) / 16, np.round(values["margin"] ** 2 * 4) / 4]
    np.testing.assert_array_equal(found, expected)
    assert totals.tolist() == [each.sum() for each in expected]
    assert largest.tolist() == [abs(values["margin"]).max(), (values["margin"] ** 2).max()]  # before they are rounded


@cases("case", CASES)
def test_losses_are_programs_unless_they_look_at_other_rows(case):
    parameters = Parameters(**case.parameters)
    values = {name: getattr(parameters, name) for name in Parameters.__dataclass_fields__}
    loss = get_loss(case.objective, values | {"max_delta_step": 0.7})
    gradients = [e for output in loss.outputs for e in (output.gradient, output.hessian)]
    by_row = all(isinstance(term, Expression) for term in loss.terms.values())
    by_row &= not any("IS NULL" in each.text for each in gradients)  # as where there is no upper bound
    assert (compile_program(gradients, loss.terms, {}) is not None) == by_row


def test_every_instruction_is_tried():
    tried = set()
    for text in EXPRESSIONS:
        program = compile_program([Expression(text, (*NAMES, "half", "once"))], TERMS, {})
        tried |= {NAME_OF[number] for number in program.instructions[:, 0]}
    assert tried | {"EXP_AT_ONCE", "LN_AT_ONCE"} == set(OPCODES)  # which take the places of EXP and LN


def test_the_logistic_gradient_is_the_program_of_the_documentation():
    program = compile_program([Expression("1 / (1 + EXP(-margin)) - label")], {}, {})
    operations = [NAME_OF[number] for number in program.instructions[:, 0]]
    assert operations == ["NUMBER", "COLUMN", "NEG", "EXP", "+", "/", "COLUMN", "-"]
    assert program.instructions[:, 1:3].tolist() == [[0, 0], [0, 0], [1, 0], [2, 0], [0, 3], [0, 4], [1, 0], [5, 6]]
    assert (program.columns, program.constants[0]) == (("margin", "label"), 1.0)


def test_common_subexpressions_are_computed_once_and_weights_of_one_dropped():
    text = "EXP(margin) * weight + EXP(margin) * weight"
    program = compile_program([Expression(text)], {}, {"weight": 1.0})
    assert [NAME_OF[number] for number in program.instructions[:, 0]] == ["COLUMN", "EXP", "NUMBER", "+"]
    assert program.columns == ("margin",)


@cases(
    "text", ["CASE WHEN label > 0 THEN 1 END", "CASE WHEN label IS NULL THEN 1 ELSE 0 END", "POWER(label, 2)", "total"]
)
def test_what_may_be_null_or_another_number_or_looks_at_other_rows_is_left_to_polars(text):
    running = Cumulative(Expression("weight"), Expression("label"), descending=False)
    assert compile_program([Expression(text, ("label", "total"))], {"total": running}, {}) is None


@pytest.mark.parametrize(
    "name", ["poisson-nloglik", "mphe", "rmsle", "gamma-deviance", "tweedie-nloglik@1.2", "mlogloss"]
)
def test_metrics_have_programs(name):
    """A metric without one takes several queries of polars in each round."""
    parameters = Parameters(num_class=3).as_dict()
    loss = get_loss("multi:softprob" if name == "mlogloss" else "reg:squarederror", parameters)
    (metric,) = get_metrics(name, loss, parameters)
    assert isinstance(metric, Metric)
    sums = [expression for _, expression in metric.parts[0].values()]
    assert compile_program(sums, {}, {"weight": 1.0}) is not None
