"""A fit in Spark, with two executors, gives the model of one machine, also if an executor is killed."""

import os
import re
import signal
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest

import frameboost as fb
from tests.engines.spark import session
from tests.engines.spark.session import FEATURES, OPTIONS, remote_session, rows_of

pytestmark = pytest.mark.slow


def in_spark(job):
    """Give a test what ``job`` of the session returns; `tests.conftest` may have started it long before."""
    return pytest.mark.parametrize("found", [job], indirect=True, ids=["in Spark"])


@pytest.fixture
def found(request):
    if not session.is_there():
        pytest.skip("Spark needs Java and the packages pyspark and distributed")
    return session.start(request.param).result()


@pytest.fixture(scope="module", autouse=True)
def one_process():
    yield
    session.end()


def the_same_models(spark):
    from pyspark.sql import functions

    data, rows = rows_of(spark)
    labelled = data.withColumn("label", functions.when(data["late"], "late ☃").otherwise("it's in time"))
    labels = pl.when("late").then(pl.lit("late ☃")).otherwise(pl.lit("it's in time"))
    same = []
    for target, more in [
        ("amount", {"objective": "reg:absoluteerror", "subsample": 0.7, "target_transform": "asinh"}),
        (
            "label",
            {
                "weight": "w",
                "eval_metric": ["logloss", "auc"],
                "valid": "w > 1.4",
                "min_child_samples": 30,
                "class_weight": "balanced",
                "threshold": "f1",
            },
        ),
    ]:
        model = fb.fit(labelled, target, **OPTIONS, **more)
        whole = fb.fit(rows.with_columns(label=labels), target, **OPTIONS, **more)
        assert model.to_json() == whole.to_json(), target
        assert model.history.equals(whole.history)
        same.append(target)
    return same


@in_spark(the_same_models)
def test_the_model_is_that_of_one_machine(found):
    assert found == ["amount", "label"]


def resumed(spark):
    with TemporaryDirectory() as folder:
        return resumed_in(spark, Path(folder) / "fit.json")


def resumed_in(spark, path):
    data, rows = rows_of(spark)
    options = {**OPTIONS, "subsample": 0.8, "checkpoint": path, "checkpoint_every": 1}
    trained = []

    def fail(number, _):
        trained.append(number)
        if trained == [1, 2]:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        fb.fit(data, "amount", callbacks=[fail], **options)
    model = fb.fit(data, "amount", callbacks=[fail], **options)
    return trained, model.to_json() == fb.fit(rows, "amount", **OPTIONS, subsample=0.8).to_json()


@in_spark(resumed)
def test_a_fit_goes_on_from_its_checkpoint(found):
    assert found == ([1, 2, 2, 3], True)


def by_connect(spark):
    _, rows = rows_of(spark)
    remote = remote_session(spark)
    rows = rows.with_columns(text=pl.when("late").then(pl.lit("late")).otherwise(pl.lit("in time")))
    data = remote.createDataFrame(rows.to_arrow()).coalesce(2)
    more = {"subsample": 0.7, "valid": "w > 1.4"}
    model, whole = fb.fit(data, "amount", **OPTIONS, **more), fb.fit(rows, "amount", **OPTIONS, **more)
    assert model.to_json() == whole.to_json()
    assert model.history.equals(whole.history)
    first, polars = fb.fit(rows, "text", **OPTIONS), fb.Spark(engine="polars")
    longer = fb.fit(data.coalesce(1), "text", valid=data, init_model=first, engine=polars, **OPTIONS)
    assert longer == fb.fit(rows, "text", init_model=first, **OPTIONS)  # in one task, of which Connect tells
    found = [
        error(data, valid="w >"),
        error(data, valid="rand() < 0.5"),
        error(data.withColumnRenamed("w", "W").withColumnRenamed("text", "W")),
        error(remote.readStream.format("rate").load(), "value"),
    ]
    text = error(data.repartition(3), engine=fb.Spark(shards=3, task_timeout="1s"))
    found.append(re.sub("only [01] ", "only 2 ", text))  # a machine with other work to do starts them later
    handlers = len(remote.client._progress_handlers)
    remote.stop()
    return [*found, error(data)], handlers, len(spark.sparkContext.statusTracker().getActiveJobsIds())


@in_spark(by_connect)
def test_spark_connect(found):
    found, *left = found
    starts = [
        "ParameterError: valid='w >' is neither a column of the data nor a SQL predicate over its columns ([PARSE_",
        "ParameterError: valid='rand() < 0.5' calls a function that Spark marks as non-deterministic",
        "DataError: column 'W' occurs 2 times; column names must be unique",
        "DataError: data is a stream of Spark, which has no last row; write it to a table first",
        "ClusterError: only 2 of 3 tasks of the fit run after 1 seconds (task_timeout), as the session has no",
        "ClusterError: the Spark session of the data is stopped; make the DataFrame in a new one",
    ]
    assert [text[: len(start)] for text, start in zip(found, starts, strict=True)] == starts
    assert left == [0, 0]


# --- lost executors ---------------------------------------------------------------------------------------------------


def executors():
    """Return the processes of this process's executors."""
    listed = subprocess.run(["ps", "-eww", "-o", "pid,ppid,args"], capture_output=True, text=True, check=True).stdout
    processes = [line.split(None, 2) for line in listed.splitlines()[1:]]
    parents = {int(pid): int(parent) for pid, parent, _ in processes}

    def is_ours(pid):
        while pid in parents and pid != os.getpid():
            pid = parents[pid]
        return pid == os.getpid()

    return [int(pid) for pid, _, what in processes if "CoarseGrainedExecutorBackend" in what and is_ours(int(pid))]


def killed_in_mid_fit(spark):
    data, rows = rows_of(spark)
    options = {**OPTIONS, "n_estimators": 6, "subsample": 0.8}
    killed = []

    def kill(number, _):
        if number == 3:
            killed.append(max(executors()))
            os.kill(killed[0], signal.SIGKILL)

    model = fb.fit(data, "amount", callbacks=[kill], **options)
    is_gone = killed[0] not in executors()
    return len(killed), is_gone, model.to_json() == fb.fit(rows, "amount", **options).to_json()


@in_spark(killed_in_mid_fit)
def test_an_executor_that_is_killed_changes_nothing(found):
    assert found == (1, True, True)


# --- what is refused --------------------------------------------------------------------------------------------------


def error(data, target="amount", **more):
    with pytest.raises(fb.FrameboostError) as raised:
        fb.fit(data, target, **(OPTIONS | more))
    return f"{type(raised.value).__name__}: {raised.value}"


def bad_input(spark):
    data, rows = rows_of(spark)
    from pyspark.sql import functions

    with pytest.raises(ZeroDivisionError):  # first: Spark starts Python anew after an error in it
        fb.fit(data, "amount", callbacks=[lambda *_: 1 / 0], **OPTIONS)
    found = [
        error(data.withColumn("amount", functions.lit(None).cast("double"))),
        error(data.withColumn("x", functions.expr("CAST(raise_error('no luck') AS DOUBLE)")), features=["x"]),
        error(data.withColumn("x", functions.expr("CAST(X'FF' AS STRING)")), features=["x"]),
        error(data.withColumn("x", functions.create_map(functions.lit(1), functions.lit(2))), features=["x"]),
        error(data, "string", features=["float64"], objective="reg:gamma"),
        error(data, valid="w >"),
        error(data, valid="rand() < 0.5"),
        error(data.select("*", functions.lit(1).alias("w"))),
        error(data, engine="numba"),
        error(data, shards=2),
        error(data, tree_method="exact"),
        error(data, n_jobs=2),
        error(rows, valid=rows, engine=fb.Spark()),
        error(data, engine=fb.Spark(shards=3, task_timeout=0.1)),
        error(data, engine=fb.Spark(task_timeout="soon")),
    ]
    return found, len(spark.sparkContext.statusTracker().getActiveJobsIds())


@in_spark(bad_input)
def test_what_is_refused_leaves_nothing_behind(found):
    found, n_jobs = found
    starts = [
        "DataError: target 'amount' has no label in any row",
        "ClusterError: the Spark job that holds the rows has ended: [USER_RAISED_EXCEPTION] no luck",
        "ClusterError: the Spark job that holds the rows has ended: ValueError: column 'x' holds text that is not",
        "DataError: feature 'x' has type map<int,int>, which can't be split on",
        "ParameterError: objective 'reg:gamma' needs numbers, but target 'string' has type string, whose values are ",
        "ParameterError: valid='w >' is neither a column of the data nor a SQL predicate over its columns ([PARSE_",
        "ParameterError: valid='rand() < 0.5' calls a function that Spark marks as non-deterministic",
        "DataError: column 'w' occurs 2 times; column names must be unique",
        "ParameterError: engine 'numba' trains on frames, not on Spark DataFrames",
        "ParameterError: shards=2 divides rows of this process; set engine=fb.Spark(..., shards=2)",
        "ParameterError: tree_method='exact' needs engine='numba', not 'spark'",
        "ParameterError: n_jobs is for engine='numba'; spark takes its number of threads from spark.task.cpus",
        "ParameterError: engine 'spark' trains on Spark DataFrames, not on frames",
        "ClusterError: fb.Spark needs 3 task slots at the same time, but the session has 2; add executors",
        "ParameterError: the task_timeout of fb.Spark must be a number of seconds above 0, or such as '5 minutes', not",
    ]
    assert [text[: len(start)] for text, start in zip(found, starts, strict=True)] == starts
    assert n_jobs == 0


# --- types and scoring ------------------------------------------------------------------------------------------------


def types_and_scores(spark):
    data, rows = rows_of(spark)
    from pyspark.sql import functions

    from frameboost.data.spark_source import SparkSource

    columns = {
        "a.b": "TINYINT", "`": "BIGINT", "f": "FLOAT", "d": "DECIMAL(20, 3)", "flag": "BOOLEAN", "day": "DATE",
        "t": "TIMESTAMP", "n": "TIMESTAMP_NTZ", "i": "INTERVAL DAY TO SECOND", "y": "INTERVAL YEAR", "s": "STRING",
        "bin": "BINARY", "list": "ARRAY<INT>",
    }  # fmt: skip
    frame = spark.range(1).select(
        *(functions.expr(f"CAST(NULL AS {kind})").alias(name) for name, kind in columns.items())
    )
    types = {name: kind and kind.name for name, kind in SparkSource(frame).types().items()}

    features = [*FEATURES, "boolean"]
    model = fb.fit(rows, "amount", **(OPTIONS | {"features": features}))
    scored = data.select(*features, functions.expr(model.sql(dialect="spark")).alias("score")).toArrow()
    frame = pl.DataFrame(scored)
    data.createOrReplaceTempView("flights")
    queried = spark.sql(model.query("flights", dialect="spark")).toArrow()
    is_same = frame["score"].equals(model.predict(frame).alias("score"))
    return types, is_same, sorted(queried["prediction"].to_pylist()) == sorted(frame["score"].to_list())


@in_spark(types_and_scores)
def test_types_and_scores(found):
    types, *same = found
    assert types == {
        "a.b": "int8", "`": "int64", "f": "float32", "d": "decimal(20,3)", "flag": "boolean", "day": "date",
        "t": "timestamptz[us]", "n": "timestamp[us]", "i": "duration[us]", "y": None, "s": "string", "bin": None,
        "list": None,
    }  # fmt: skip
    assert same == [True, True]


def stopped_in_mid_fit(spark):
    data, _ = rows_of(spark)
    messages = []
    for callback in (lambda *_: spark.stop(), print):
        with pytest.raises(fb.ClusterError) as error:
            fb.fit(data, "amount", callbacks=[callback], **OPTIONS)
        messages.append(str(error.value))
    return messages


@in_spark(stopped_in_mid_fit)
def test_a_session_that_is_stopped_is_told(found):
    first, second = found
    assert first.startswith("the Spark job that holds the rows has ended: ")
    assert second == "the Spark session of the data is stopped; make the DataFrame in a new one"
