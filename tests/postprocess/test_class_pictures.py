"""Pictures of classes: precision, recall and F1 of each, and of entity types; the confusion matrix says how many there are."""

import pathlib
import sys
import tempfile
import unittest

import h5py
import matplotlib
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "postprocess")]

import facts  # noqa: E402
import make_run  # noqa: E402
import plot_classes  # noqa: E402
import plot_confusion  # noqa: E402
import plot_predictions  # noqa: E402
import plot_reliability  # noqa: E402
import predicted_entities  # noqa: E402
import reading  # noqa: E402

COUNTS = np.array([[[6, 4], [2, 988]]])


class Classes(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self._folder.name)

    def tearDown(self):
        matplotlib.pyplot.close("all")
        self._folder.cleanup()

    def load(self, counts=COUNTS, names=("few", "many"), task="classification", types=None):
        evaluations = {"test": {"step": np.array([20]), "loss": np.array([0.5]), "accuracy": np.array([0.9]), "confusion_matrix": counts}}
        make_run.write_metrics(self.folder, make_run.step_columns(20, 1, np.random.default_rng(1)), evaluations, labels=names, task=task)
        if types:
            with h5py.File(self.folder / "metrics.h5", "r+") as file:
                for name, values in types.items():
                    file[f"evaluations/test/per_type/{name}"] = np.array([values])
        return reading.load_run(self.folder, "run")

    def test_rates_of_each_class(self):
        [(name, figure)] = plot_classes.draw([self.load()])
        self.assertEqual(name, "classes-test")
        [axes] = figure.axes
        self.assertEqual([label.get_text() for label in axes.get_yticklabels()], ["many (990)", "few (10)"])  # by F1
        rates = {line.get_label(): list(line.get_xdata()) for line in axes.lines}
        np.testing.assert_allclose(rates["precision"], [988 / 992, 6 / 8])
        np.testing.assert_allclose(rates["recall"], [988 / 990, 6 / 10])
        np.testing.assert_allclose(rates["F1"], [2 * 988 / (992 + 990), 12 / 18])

    def test_entity_types_have_a_picture_of_their_own(self):
        run = self.load(names=("B-a", "B-b"), task="token_classification",
                        types={"precision": [0.5, 0.75], "recall": [0.25, 0.5], "f1": [1 / 3, 0.6], "support": [4, 1234]})
        found = dict(plot_classes.draw([run]))
        self.assertEqual(list(found), ["classes-test", "entities-test"])
        axes = found["entities-test"].axes[0]
        self.assertEqual([label.get_text() for label in axes.get_yticklabels()], ["b (1,234)", "a (4)"])
        self.assertEqual(axes.get_ylabel(), "Entity type (entities)")
        self.assertEqual(found["classes-test"].axes[0].get_ylabel(), "Tag (words)")

    def test_the_most_frequent_of_many_classes(self):
        classes = plot_classes.MOST + 10
        counts = np.diag(np.arange(1, classes + 1))[None]
        [(_, figure)] = plot_classes.draw([self.load(counts, [f"c{number}" for number in range(classes)])])
        shown = {label.get_text() for label in figure.axes[0].get_yticklabels()}
        self.assertEqual(shown, {f"c{number} ({number + 1})" for number in range(10, classes)})
        self.assertIn(f"the {plot_classes.MOST} most frequent of {classes}", figure._suptitle.get_text())
        self.assertLessEqual(figure.get_size_inches()[1], 14)

    def test_a_confusion_matrix_says_how_many_there_are(self):
        for task, kind, counted in (("classification", "class", "samples"), ("token_classification", "tag", "words"),
                                    ("regression", "level", "samples")):
            [(_, figure)] = plot_confusion.draw([self.load(task=task)])
            axes = figure.axes[0]
            self.assertEqual([label.get_text() for label in axes.get_yticklabels()], ["few (10)", "many (990)"])
            self.assertEqual([label.get_text() for label in axes.get_xticklabels()], ["few", "many"])
            self.assertEqual((axes.get_xlabel(), axes.get_ylabel()), (f"Predicted {kind}", f"Actual {kind} ({counted})"))

    def test_predicted_entities_of_each_type(self):
        run = self.load(names=("O", "B-a"), task="token_classification")
        path = self.folder / "predictions.conll"
        path.write_text("x B-a\ny I-a\nz B-a\nw O\n\nu I-b\nv I-a\n\nw S-b\nw E-b\n")  # IOB1 and BIOES too
        self.assertEqual(predicted_entities.counts(run), ("entities", {"a": 3, "b": 3}, 8))
        [(name, figure)] = plot_predictions.draw([run])
        self.assertEqual((name, figure.axes[0].get_xlabel()), ("predictions", "Predicted entities"))
        self.assertIn(["predicted entities: a", "3"], facts.shown(run))
        path.write_text("x NN\ny VB-x\n\nz NN\n")  # parts of speech
        self.assertEqual(predicted_entities.counts(run), ("words", {"NN": 2, "VB-x": 1}, 3))
        path.write_text("x O O\n")  # with known tags
        self.assertIsNone(predicted_entities.counts(run))

    def test_predicted_classes_are_counted_in_the_summary(self):
        run = run_with_predictions(self.load(names=("few", "many")))
        run.predictions |= {"label_names": ["few", "many"], "prediction": np.array([1, 0, 1])}
        self.assertNotIn("predicted class: many", dict(facts.shown(run)))  # a training says more
        run.attributes["mode"] = "predict"
        self.assertEqual([row for row in facts.shown(run) if "predicted" in row[0]], [["predicted class: many", "2"], ["predicted class: few", "1"]])

    def test_no_legend_lies_on_the_bars_of_reliability(self):
        run = self.load()
        generator = np.random.default_rng(1)
        figure = plot_reliability.draw_run(run_with_predictions(run), generator.random(500), generator.random(500) < 0.5, plot_reliability.drawing.USUAL)
        figure.canvas.draw()
        [legend] = figure.legends
        self.assertEqual(len(legend.get_texts()), 5)
        self.assertTrue(all(axes.get_legend() is None for axes in figure.axes))
        self.assertFalse(any(legend.get_window_extent().overlaps(axes.get_tightbbox()) for axes in figure.axes))


def run_with_predictions(run):
    run.predictions = {"split": "test", "task": "classification"}
    return run


if __name__ == "__main__":
    unittest.main()
