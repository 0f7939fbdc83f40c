"""Mode search: the documents and scores of a plain product in numpy, on any number of ranks; the numbers of trec_eval; negatives mined from
what it has found; what cannot be is refused."""

import json
import random
import unittest

import h5py
import numpy as np
from program import TaskCase, run
from test_text_embedding import WORDS, write_matches

DOCUMENTS, QUERIES = 9000, 40  # three blocks of documents


def rows_of(folder, split="test"):
    """Embeddings of a split as float64, at length 1."""
    parts = []
    for path in sorted((folder / "embeddings").glob(f"{split}-*.h5")):
        with h5py.File(path) as file:
            rows = file["embeddings"][:].astype(float)
            parts.append(rows * file["scales"][:][:, None] if "scales" in file else rows)
    rows = np.concatenate(parts)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def row_numbers(path):
    """The row of the text of each group of a shard."""
    with h5py.File(path) as file:
        return file["source_index"][:][file["groups"][:-1]]


class Search(TaskCase):
    task = "embedding"
    hidden_size, max_tokens = 32, 24
    shards = {"train": ["pairs/train-*.h5"]}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        draw = random.Random(7)
        text = lambda: " ".join(draw.choices(WORDS, k=draw.randint(3, 8)))
        cls.corpus = [{"_id": f"d{i}", "title": draw.choice(WORDS), "text": text()} for i in range(DOCUMENTS)]
        (cls.folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in cls.corpus))
        (cls.folder / "queries.jsonl").write_text("".join(json.dumps({"_id": f"q{i}", "text": text()}) + "\n" for i in range(QUERIES)))
        judged = [(f"q{q}", f"d{d}", draw.choice([1, 1, 2, 0])) for q in range(QUERIES - 5) for d in draw.sample(range(DOCUMENTS), 6)]
        (cls.folder / "qrels.trec").write_text("".join(f"{q} 0 {d} {level}\n" for q, d, level in judged))
        (cls.folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join("\t".join(map(str, row)) + "\n" for row in judged))
        write_matches(cls.folder / "train.tsv", 300, 1)
        cls.prepare("pairs", {"format": "tsv", "files": ["train.tsv"]}, split={"train": 1}, tokenizer={"max_tokens": 24, "train_size": 120})
        cls.prepare("corpus", {"format": "jsonl", "test_files": ["corpus.jsonl"], "text": ["title", "text"], "id": "_id"})
        cls.prepare("queries", {"format": "jsonl", "test_files": ["queries.jsonl"], "text": "text", "id": "_id"})
        cls.train("learnt", batch={"global": 50}, schedule={"epochs": 2})
        for name, data in {"corpus": {"test": ["corpus/test-*.h5"]}, "queries": {"test": ["queries/test-*.h5"]}, "pairs": cls.shards}.items():
            cls.embed(f"{name}_embedded", data)

    @classmethod
    def prepare(cls, output, source, check=0, **more):
        tables = {"source": source, "tokenizer": {"max_tokens": 24, "vocabulary": "pairs"}, "task": {"name": "embedding"},
                  "output": {"directory": output}} | more
        return cls.start("bert_hpc_prep", f"{output}_prep.toml", tables, 1, check)

    @classmethod
    def embed(cls, name, data, **embed):
        tables = {"run": {"mode": "embed", "directory": name}, "model": {"pretrained": "learnt/model"}, "embed": embed, "data": data}
        cls.start("bert_hpc", f"{name}.toml", tables, 1, 0)

    @classmethod
    def search(cls, name, ranks=1, check=0, **search):
        given = {"queries": ["queries_embedded/embeddings/test-*.h5"], "corpus": ["corpus_embedded/embeddings/test-*.h5"]}
        tables = {"run": {"mode": "search", "directory": name}, "search": given | search}
        return cls.start("bert_hpc", f"{name}.toml", tables, ranks, check)

    def found(self, name):
        with h5py.File(self.folder / name / "search.h5") as file:
            return {data: file[data][:] for data in ("queries", "neighbours", "scores", "own_scores")}

    def metrics(self, name):
        with h5py.File(self.folder / name / "metrics.h5") as file:
            return {metric: data[-1] for metric, data in file["evaluations/test"].items()}

    def test_documents_are_the_nearest_on_any_ranks(self):
        exact = rows_of(self.folder / "queries_embedded") @ rows_of(self.folder / "corpus_embedded").T
        for ranks in (1, 2, 4):
            self.search(f"on{ranks}", ranks, top_k=50)
        found = self.found("on1")
        self.assertEqual(found["queries"].tolist(), list(range(QUERIES)))
        # Sums of 32 products of rounded numbers: some roundings of 6e-8.
        np.testing.assert_allclose(found["scores"], np.take_along_axis(exact, found["neighbours"], 1), atol=1e-6)
        np.testing.assert_allclose(found["scores"], -np.sort(-exact, axis=1)[:, :50], atol=1e-6)
        self.assertTrue(all(len(set(row)) == 50 for row in found["neighbours"].tolist()))
        for ranks in (2, 4):
            for data, values in self.found(f"on{ranks}").items():
                np.testing.assert_array_equal(values, found[data])
            self.assertEqual(self.lines(f"on{ranks}"), self.lines("on1"))
        first = self.lines("on1")[0]
        self.assertEqual(first[:4], ["q0", "Q0", f"d{found['neighbours'][0, 0]}", "1"])
        self.assertEqual(np.float32(first[4]), found["scores"][0, 0])

    def lines(self, name):
        """Of run.trec, without the run's name."""
        return [line.split()[:5] for line in (self.folder / name / "run.trec").read_text().splitlines()]

    def test_stored_types_and_dot_products(self):
        self.embed("corpus_int8", {"test": ["corpus/test-*.h5"]}, type="int8")
        self.search("int8", corpus=["corpus_int8/embeddings/test-*.h5"], top_k=10)
        exact = rows_of(self.folder / "queries_embedded") @ rows_of(self.folder / "corpus_int8").T
        np.testing.assert_allclose(self.found("int8")["scores"], -np.sort(-exact, axis=1)[:, :10], atol=1e-6)
        self.search("dot", similarity="dot", top_k=10)
        with h5py.File(self.folder / "queries_embedded/embeddings/test-00000.h5") as queries, \
                h5py.File(self.folder / "corpus_embedded/embeddings/test-00000.h5") as corpus:
            products = queries["embeddings"][:].astype(float) @ corpus["embeddings"][:].astype(float).T
        np.testing.assert_allclose(self.found("dot")["scores"], -np.sort(-products, axis=1)[:, :10], rtol=1e-6)

    def test_figures_are_those_of_the_scorer(self):
        done = self.search("judged", 2, qrels="qrels.trec", top_k=1000)
        self.search("judged_beir", qrels="qrels.tsv", top_k=1000)
        scored = json.loads(run("bert_hpc_score", "trec", "qrels.trec", "judged/run.trec", check=0, cwd=self.folder).stdout)
        metrics = self.metrics("judged")
        self.assertEqual(scored["num_q"], QUERIES - 5)
        for ours, theirs in {"map": "map", "mrr": "recip_rank", "ndcg_at_10": "ndcg_cut_10", "recall_at_100": "recall_100"}.items():
            self.assertAlmostEqual(metrics[ours], scored[theirs], delta=1e-12)
        self.assertGreater(metrics["recall_at_100"], 0)
        self.assertIn(f"{QUERIES - 5} judged queries, MAP {metrics['map']:.4g}", done.stdout)
        self.assertEqual({m: v for m, v in self.metrics("judged_beir").items() if m not in ("time", "loss")},
                         {m: v for m, v in metrics.items() if m not in ("time", "loss")})

    def test_rows_of_pairs_say_what_is_relevant(self):
        self.search("pairs_found", 2, queries=["pairs_embedded/embeddings/train-*.h5"], corpus=None, top_k=20)
        rows = rows_of(self.folder / "pairs_embedded", "train")
        cosines = rows[::2] @ rows[1::2].T
        own = np.diag(cosines)
        ranks = np.full(300, np.inf)
        for query, _, document, rank, _ in self.lines("pairs_found"):
            if query == document:
                ranks[int(query)] = int(rank)
        # Some texts are equal, and so are their scores: their order is that of trec_eval.
        least = (cosines > own[:, None] + 1e-6).sum(axis=1) + 1
        most = (cosines > own[:, None] - 1e-6).sum(axis=1)
        order = row_numbers(self.folder / "pairs/train-00000.h5")
        self.assertTrue(((least <= ranks[order]) & ((ranks[order] <= most) | (most > 20))).all())
        metrics, found = self.metrics("pairs_found"), self.found("pairs_found")
        self.assertAlmostEqual(metrics["precision_at_1"], np.mean(ranks == 1), delta=1e-9)
        self.assertAlmostEqual(metrics["mrr_at_10"], np.mean(np.where(ranks <= 10, 1 / ranks, 0)), delta=1e-9)
        self.assertAlmostEqual(metrics["recall_at_10"], np.mean(ranks <= 10), delta=1e-9)
        np.testing.assert_allclose(found["own_scores"], own, atol=1e-6)
        self.assertTrue((found["neighbours"] % 2 == 1).all())  # no anchor is a document

    def mine(self, output, ranks=1, check=0, **mine):
        tables = {"mine": {"shards": ["pairs/train-*.h5"], "search": "to_mine/search.h5"} | mine, "output": {"directory": output}}
        return self.start("bert_hpc_prep", f"{output}_prep.toml", tables, ranks, check)

    def texts(self, folder):
        """Of each row the texts as tuples of ids."""
        rows = {}
        for path in sorted((self.folder / folder).glob("train-*.h5")):
            with h5py.File(path) as file:
                ids, offsets, groups, source = (file[data][:] for data in ("input_ids", "offsets", "groups", "source_index"))
            for a, b in zip(groups, groups[1:]):
                self.assertEqual(len(set(source[a:b])), 1)
                rows[source[a]] = [tuple(ids[offsets[s]:offsets[s + 1]]) for s in range(a, b)]
        return rows

    def test_mined_negatives(self):
        self.search("to_mine", queries=["pairs_embedded/embeddings/train-*.h5"], corpus=None, top_k=60)
        done = self.mine("mined", negatives=4, margin=0.02)
        self.assertIn("negatives", done.stdout)
        self.mine("mined2", 2, negatives=4, margin=0.02)
        names = sorted(path.name for path in (self.folder / "mined").glob("*"))
        for name in ("vocab.txt", "tokenizer_config.json"):
            self.assertIn(name, names)
        for name in set(names) - {"prep.toml", ".written_by_bert_hpc_prep"}:  # which name the folder
            self.assertEqual((self.folder / "mined" / name).read_bytes(), (self.folder / "mined2" / name).read_bytes(), name)
        before, after = self.texts("pairs"), self.texts("mined")
        found, rows = self.found("to_mine"), list(before)
        texts = [text for row in before.values() for text in row]
        belongs = {}
        for row in before.values():
            belongs.setdefault(row[0], set()).update(row)
        for number, row in enumerate(rows):
            expected = []
            for sequence, score in zip(found["neighbours"][number], found["scores"][number]):
                text = texts[sequence]
                if text in belongs[before[row][0]] or text in expected or score > float(found["own_scores"][number]) - 0.02:
                    continue
                expected.append(text)
            self.assertEqual(after[row], before[row] + expected[:4])
        self.assertGreater(sum(len(row) - 2 for row in after.values()), 300)
        tables = {"run": {"mode": "train", "directory": "trained_on_mined"}, "task": {"name": "embedding"}, "data": {"train": ["mined/train-*.h5"]},
                  "model": {"pretrained": "learnt/model"}, "batch": {"global": 50}, "optimizer": {"learning_rate": 1e-3}, "schedule": {"epochs": 1}}
        self.start("bert_hpc", "trained_on_mined.toml", tables, 2, 0)

    def test_negatives_of_a_corpus(self):
        self.search("to_mine_corpus", queries=["pairs_embedded/embeddings/train-*.h5"], top_k=20)
        self.mine("mined_corpus", search="to_mine_corpus/search.h5", corpus=["corpus/test-*.h5"], negatives=2, skip=1)
        found, before, after = self.found("to_mine_corpus"), self.texts("pairs"), self.texts("mined_corpus")
        with h5py.File(self.folder / "corpus/test-00000.h5") as file:
            ids, offsets = file["input_ids"][:], file["offsets"][:]
        for number, row in enumerate(before):
            near = [tuple(ids[offsets[s]:offsets[s + 1]]) for s in found["neighbours"][number]]
            others = [text for text in near if text not in before[row]][1:]
            self.assertEqual(after[row], before[row] + list(dict.fromkeys(others))[:2])

    def test_what_cannot_be_is_refused(self):
        done = self.search("tokens_of_queries", check=3, queries=["queries/test-*.h5"])
        self.assertIn("embed the shards with run.mode", done.stderr)
        self.embed("queries_tokens", {"test": ["queries/test-*.h5"]}, pooling="tokens")
        done = self.search("of_tokens", check=3, queries=["queries_tokens/embeddings/test-*.h5"])
        self.assertIn("it holds embeddings of tokens", done.stderr)
        self.embed("queries_narrow", {"test": ["queries/test-*.h5"]}, dimensions=16)
        done = self.search("narrow", 2, check=3, queries=["queries_narrow/embeddings/test-*.h5"])
        self.assertRegex(done.stderr, r"its embeddings \(32 columns, .*\) cannot be compared with those of .* \(16 columns")
        (self.folder / "others.trec").write_text("other 0 d1 1\n")
        done = self.search("others", check=3, qrels="others.trec")
        self.assertIn("none of its 1 query is among those of [search] queries, whose first one is \"q0\"", done.stderr)
        (self.folder / "absent.trec").write_text("q1 0 x1 1\n")
        done = self.search("absent", check=3, qrels="absent.trec")
        self.assertIn("none of its relevant documents is in [search] corpus", done.stderr)
        done = self.search("without", check=4, qrels="missing.trec")
        self.assertIn("missing.trec", done.stderr)
        done = self.search("nothing", check=2, queries=[])
        self.assertIn("[search] queries is missing", done.stderr)
        self.search("on_corpus", top_k=5)
        done = self.mine("of_others", check=3, search="on_corpus/search.h5")
        self.assertIn("the search was in queries of other shards than [mine] shards names", done.stderr)
        self.assertFalse((self.folder / "of_others").exists())
        self.search("among_queries", corpus=None, top_k=5)
        done = self.mine("of_lone_texts", check=3, shards=["queries/test-*.h5"], search="among_queries/search.h5")
        self.assertRegex(done.stderr, "queries/test-00000.h5: row 0 has one text, and its first negative would count as its positive")
        done = self.mine("without_search", check=2, search=None)
        self.assertIn("[mine] search is missing", done.stderr)
        (self.folder / "blank.jsonl").write_text('{"_id": "a b", "text": "tea"}\n{"_id": "c", "text": "tea"}\n{"_id": "c", "text": "leaf"}\n')
        done = self.prepare("blank", {"format": "jsonl", "test_files": ["blank.jsonl"], "text": "text", "id": "_id"}, filter={"max_rejected": 1})
        rejects = (self.folder / "blank/rejects.tsv").read_text()
        self.assertIn('an id is empty or holds a blank, which files of rankings cannot have ("a b")', rejects)
        self.assertIn('an earlier row of the split has the same id ("c")', rejects)


if __name__ == "__main__":
    unittest.main()
