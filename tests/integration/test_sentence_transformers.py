"""Models of the task embedding as folders of sentence-transformers: SentenceTransformer(folder).encode() gives the embeddings of mode
embed, and a folder that it has saved is read. Needs torch and sentence_transformers, skipped without."""

import json
import os
import unittest

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import h5py  # noqa: E402
import numpy as np  # noqa: E402
import sentence_transformers  # noqa: E402

import training_cases as cases  # noqa: E402


class SentenceTransformers(cases.Trainings):
    def embed(self, name, model, task, **more):
        """Embeddings of the test texts; by default as the folder of the model says."""
        self.start("bert_hpc", f"{name}.toml", {"run": {"mode": "embed", "directory": name}, "model": {"pretrained": model},
                                                "embed": more, "data": {"test": [f"{task}/test-*.h5"]}})
        with h5py.File(self.folder / name / "embeddings/test-00000.h5") as file:
            return file["embeddings"][:], file["source_index"][:]

    def texts(self, task):
        """The test texts in the order of the shard, which is that of the table."""
        table = "pairs_test.tsv" if task in cases.EMBEDDINGS else "test.tsv"
        header, *rows = [line.split("\t") for line in (self.folder / table).read_text().splitlines()]
        source = cases.EMBEDDING_SOURCES.get(task, {})
        columns = [source.get("text", "anchor"), source.get("text_pair", "positive"), *source.get("negatives", [])] if task in cases.EMBEDDINGS else ["text"]
        return [text for row in rows for text in (row[header.index(column)] for column in columns) if text]

    def test_trained_models_are_loaded(self):
        for task in [*cases.EMBEDDINGS, *cases.CLASS_EMBEDDINGS]:
            with self.subTest(task):
                self.prepare(task)
                self.train(task, f"{task}_run", {}, 10)
                settings = cases.embedding_settings(task)
                similarity = settings.get("similarity", "dot" if settings.get("loss") == "margin_mse" else "cosine")
                normalize = ["Normalize"] if similarity == "cosine" else []
                folder = self.folder / f"{task}_run/model"
                model = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
                self.assertEqual(model.max_seq_length, cases.MAX_TOKENS)
                self.assertEqual([type(module).__name__ for module in model], ["Transformer", "Pooling", *normalize])
                self.assertEqual(model.similarity_fn_name, similarity)
                ours, _ = self.embed(f"{task}_embedded", f"{task}_run/model", task)
                theirs = model.encode(self.texts(task), batch_size=16)
                difference = np.abs(ours - theirs).max()
                print(f"{task}: embeddings at most {difference:.1e} apart")
                self.assertLess(difference, 1e-6 * max(1, np.abs(theirs).max()))
                # What it saves is read as what it has read, also by a training.
                model.save(str(self.folder / f"{task}_saved"))
                again, _ = self.embed(f"{task}_again", f"{task}_saved", task)
                self.assertTrue((again == ours).all())
                self.train(task, f"{task}_more", {}, 1, model={"pretrained": f"{task}_saved"})
                resolved = (self.folder / f"{task}_more/input.toml").read_text()
                self.assertIn(f'pooling = "{settings.get("pooling", "mean")}"', resolved)

    def test_modules_of_another_model_are_refused(self):
        task = next(iter(cases.EMBEDDINGS))
        self.prepare(task)
        self.train(task, "other_run", {}, 1)
        path = self.folder / "other_run/model/1_Pooling/config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"word_embedding_dimension": 8}))
        with self.assertRaisesRegex(AssertionError, "its pooling is of 8 dimensions .*are of different models"):
            self.embed("other", "other_run/model", task)


if __name__ == "__main__":
    unittest.main()
