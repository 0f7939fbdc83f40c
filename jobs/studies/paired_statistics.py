"""Paired comparisons of a study's rows: over seeds, and over the held-out questions of a ranking."""

import math

import numpy as np

import command_line  # noqa: F401  (first: it makes the modules of postprocess/ visible)
import plot_seeds
import queries

MEASURES = (("map", "MAP"), ("mrr", "MRR"), ("precision", "precision"), ("recall", "recall"), ("f1", "F1"))
DRAWS = 10000
REFERENCES = ("baseline", "student")


def bootstrap(differences, draws=DRAWS, seed=1):
    """The 95% interval of the mean: percentiles of the means of samples with replacement."""
    values = np.asarray(differences, dtype=float)
    if len(values) < 2:
        return math.nan, math.nan
    chance = np.random.default_rng(seed)
    means = np.concatenate(
        [values[chance.integers(0, len(values), (1000, len(values)))].mean(axis=1) for _ in range(draws // 1000)]
    )
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def effect_size(differences):
    """Cohen's d of paired values: the mean difference in its standard deviations."""
    values = np.asarray(differences, dtype=float)
    deviation = values.std(ddof=1) if len(values) > 1 else 0.0
    return float(values.mean() / deviation) if deviation > 0 else math.nan


def wilcoxon(differences):
    """The two-sided p of Wilcoxon's signed-rank test; NaN without SciPy, or without a difference."""
    try:
        from scipy.stats import wilcoxon as test
    except ImportError:
        return math.nan
    values = np.asarray(differences, dtype=float)
    return float(test(values).pvalue) if len(values) > 1 and np.any(values != 0) else math.nan


def compared(differences):
    values = np.asarray(differences, dtype=float)
    return [
        len(values),
        float(values.mean()) if len(values) else math.nan,
        *bootstrap(values),
        wilcoxon(values),
        effect_size(values),
    ]


def by_seed(study, runs, variant):
    """{seed: run}"""
    return {seed: runs[name] for name, seed in study.runs_of(variant) if name in runs}


def precisions(run):
    """{question: average precision} of the judged questions."""
    found = queries.judged(run)
    return {} if found is None else dict(zip(found.numbers.tolist(), found.average_precision.tolist()))


def over_questions(own, reference):
    """Differences of each question's average precision, as means over the seeds that both have."""
    seeds = [seed for seed in own if seed in reference]
    pairs = [(precisions(own[seed]), precisions(reference[seed])) for seed in seeds]
    if not pairs:
        return []
    questions = set.intersection(*(set(found) for pair in pairs for found in pair))
    return [
        float(np.mean([left[question] - right[question] for left, right in pairs])) for question in sorted(questions)
    ]


def lines_of(study, runs):
    of = {measure.key: measure.of for measure in study.plan.measures}
    variants = [variant for variant in study.plan.variants if not (variant.once or variant.hidden)]
    known = {variant.name: by_seed(study, runs, variant) for variant in variants}
    for position, reference in enumerate(REFERENCES):
        if reference not in known:
            continue
        base = next(variant for variant in variants if variant.name == reference)
        for variant in variants:
            if variant.name in REFERENCES[: position + 1]:
                continue
            own, other, labels = known[variant.name], known[reference], [variant.label, base.label]
            if not own.keys() & other.keys():
                continue
            for key, title in MEASURES:
                scores, others = ({seed: of[key](run) for seed, run in found.items()} for found in (own, other))
                yield [*labels, title, "seeds", *compared(plot_seeds.differences(scores, others))]
            if found := over_questions(own, other):
                yield [*labels, "average precision", "questions", *compared(found)]


HEADER = [
    "row",
    "against",
    "measure",
    "paired over",
    "pairs",
    "difference",
    "95% from",
    "to",
    "Wilcoxon p",
    "effect size",
]


def tables(study, runs):
    """The table of comparisons."""
    lines = list(lines_of(study, runs))
    if lines:
        title = "Comparisons: paired differences, bootstrap intervals, Wilcoxon's signed-rank test, Cohen's d of pairs"
        yield "comparison", title, HEADER, lines
