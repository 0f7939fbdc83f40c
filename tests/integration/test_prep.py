"""bert_hpc_prep as users run it: results are the same bytes on 1, 2 and 4 ranks, shards hold the content of the text,
wrong input gives one clear message and the documented exit status, and earlier results survive a failure."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import h5py

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = "abcdefgh"
VOCABULARY = SPECIAL + list(LETTERS) + ["##" + c for c in LETTERS]
failures = []


def check(holds, what):
    if not holds:
        failures.append(what)
        if len(failures) <= 20:
            print("FAILED:", what)


def toml(folder, **changes):
    """Writes prep.toml: the tables below with `table__key=TOML value` changed, None leaving the key out."""
    keys = {
        "source__format": '"csv"', "source__files": '["rows.csv"]', "tokenizer__vocabulary": '"vocab.txt"',
        "tokenizer__max_tokens": "12", "task__name": '"classification"', "output__directory": '"out"',
        "output__shard_tokens": "2048",
    }
    keys.update(changes)
    tables = {}
    for name, value in keys.items():
        table, key = name.split("__")
        if value is not None:
            tables.setdefault(table, []).append(f"{key} = {value}")
    text = "\n".join(f"[{table}]\n" + "\n".join(lines) for table, lines in tables.items())
    (folder / "prep.toml").write_text(text + "\n")


def run(folder, ranks=1, *arguments):
    command = ["bert_hpc_prep", "prep.toml", *arguments]
    if ranks > 1:
        command = ["mpirun", "-n", str(ranks)] + command
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


def files_of(folder):
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir()) if p.name != "prep.toml"}


def rows(count):
    """CSV text and the rows by their index."""
    table = []
    for i in range(count):
        words = [LETTERS[(i * 7 + j * j) % 8] * (1 + (i + j) % 3) for j in range(1 + i % 9)]
        table.append((" ".join(words), " ".join(reversed(words))[:9], "xyz"[i % 3], i % 17 / 2))
    lines = ["text,other,label,value"] + [f'"{a}",{b},{c},{d}' for a, b, c, d in table]
    lines[6:6] = [",b,x,1"]  # row 6 has no text, and its index counts
    table[5:5] = [None]
    return "\n".join(lines) + "\n", table


def ids_of(text):
    return [VOCABULARY.index(("##" if i else "") + c) for word in text.split() for i, c in enumerate(word)]


def same_on_any_ranks(folder):
    cases = {
        "classification": {},
        "pairs and regression": {"source__text_pair": '"other"', "source__label": '"value"', "task__name": '"regression"'},
        "own vocabulary": {"tokenizer__vocabulary": None, "tokenizer__train_size": "40"},
        "packed": {"source__format": '"text"', "task__name": '"masked_lm"'},
        "windows": {"tokenizer__doc_stride": "2"},
    }
    for name, changes in cases.items():
        toml(folder, **changes)
        results = {}
        for ranks in (1, 2, 4):
            shutil.rmtree(folder / "out", ignore_errors=True)
            done = run(folder, ranks)
            check(done.returncode == 0, f"{name} on {ranks} ranks: {done.stderr}")
            results[ranks] = files_of(folder / "out")
        check(len([n for n in results[1] if n.startswith("train-")]) > 1, f"{name}: several shards")
        check(results[1] == results[2] == results[4], f"{name}: the same bytes on 1, 2 and 4 ranks")
        # A sample of all rows changes nothing but that rows are tokenized in a pass of their own.
        shutil.rmtree(folder / "out")
        check(run(folder, 2, "--set", "filter.sample=1").returncode == 0, f"{name}: a sample of all rows")
        sampled, all_rows = [{file: data for file, data in files.items() if not file.startswith(".")}  # has prep.toml's hash
                             for files in (files_of(folder / "out"), results[1])]
        check(sampled == all_rows, f"{name}: the same bytes in one pass and in several")


def shards_say_what_the_text_said(folder, table):
    toml(folder, source__text_pair='"other"')
    check(run(folder).returncode == 0, "pairs are prepared")
    seen = {}
    for path in sorted((folder / "out").glob("*.h5")):
        with h5py.File(path) as f:
            names = json.loads(f.attrs["label_names"])
            check(names == ["x", "y", "z"], "labels are sorted by name")
            offsets = f["offsets"][:]
            check(f.attrs["sequences"] == len(offsets) - 1 and f.attrs["tokens"] == offsets[-1], "counts")
            check(f["input_ids"].chunks == (offsets[-1],) and f["offsets"].chunks == offsets.shape, "small shards have small chunks")
            labels = f["labels"][:]
            check(max(sum(labels[i : i + 8] == labels[i]) for i in range(0, len(labels) - 8, 8)) < 8, "rows are mixed")
            for i, row in enumerate(f["source_index"][:]):
                span = slice(offsets[i], offsets[i + 1])
                seen[int(row)] = (path.name.split("-")[0], f["input_ids"][span].tolist(),
                                  f["token_type_ids"][span].tolist(), names[labels[i]])
    kept = [i for i, row in enumerate(table) if row]
    check(sorted(seen) == kept, "every row that is kept is in one shard, once")
    for i in kept:
        a, b = ids_of(table[i][0]), ids_of(table[i][1])
        if len(a) + len(b) > 9:  # as Transformers' longest_first: the odd token goes to the longer, or the second
            short = min(len(a), len(b), 4)
            a, b = (a[: 9 - short], b[:short]) if len(a) > len(b) else (a[:short], b[: 9 - short])
        expected = [2, *a, 3, *b, 3]
        types = [0] * (len(a) + 2) + [1] * (len(b) + 1)
        check(seen[i][1:] == (expected, types, table[i][2]), f"row {i}: {table[i]} became {seen[i]}")
    for label in "xyz":
        group = [i for i in kept if table[i][2] == label]
        share = sum(seen[i][0] == "test" for i in group)
        check(abs(share - 0.1 * len(group)) <= 1, f"a tenth of the rows of {label} is for testing")
    rejects = (folder / "out" / "rejects.tsv").read_text().splitlines()
    check(rejects[1:] == ['rows.csv\t6\t7\tthe first text ("text") is empty'], f"rejects.tsv: {rejects}")


def long_rows_become_windows(folder, table):
    toml(folder, tokenizer__doc_stride="2", source__text_pair='"text"', source__text='"other"')
    done = run(folder)
    check(done.returncode == 0, f"windows: {done.stderr}")
    expected, several = {}, 0
    for i, row in enumerate(table):
        if row is None:
            continue
        a, b = ids_of(row[1]), ids_of(row[0])
        a = a[:6]  # of 12 tokens 3 are special and 3 are a window's overlap and one more
        room = 9 - len(a)
        begins = [0]
        while begins[-1] + room < len(b):
            begins.append(begins[-1] + room - 2)
        several += len(begins) > 1
        expected[i] = [[2, *a, 3, *b[at : at + room], 3] for at in begins]
    seen = {}
    for path in sorted((folder / "out").glob("*.h5")):
        with h5py.File(path) as f:
            offsets, last = f["offsets"][:], None
            names = json.loads(f.attrs["label_names"])
            for i, row in enumerate(f["source_index"][:].tolist()):
                check(row == last or row not in seen, f"the windows of row {row} are neighbours")
                last = row
                check(names[f["labels"][i]] == table[row][2], f"a window of row {row} has its label")
                seen.setdefault(row, []).append(f["input_ids"][offsets[i] : offsets[i + 1]].tolist())
    check(several > 20 and seen == expected, "windows are those of Transformers' only_second")
    check(f"{several:,} rows longer than 12 tokens became several sequences" in done.stdout, done.stdout)


def refused(folder, name, code, *needles, ranks=(1, 2), absent=(), **changes):
    """Checks a failure: the exit code, one message with these words, no file changed. Errors outside the text are reported
    before prep reads the text."""
    toml(folder, **changes)
    for n in ranks:
        before = files_of(folder / "out") if (folder / "out").is_dir() else None
        done = run(folder, n)
        check(done.returncode == code, f"{name} on {n} ranks: exit {done.returncode}, not {code}: {done.stderr}")
        check(done.stderr.count("bert_hpc_prep: error") == 1, f"{name} on {n} ranks: one message: {done.stderr}")
        for needle in needles:
            check(needle in done.stderr, f'{name}: "{needle}" is not in: {done.stderr}')
        for needle in absent:
            check(needle not in done.stderr, f'{name}: "{needle}" is in: {done.stderr}')
        check(code not in (2, 4) or "read " not in done.stdout, f"{name}: reported before the text is read: {done.stdout}")
        after = files_of(folder / "out") if (folder / "out").is_dir() else None
        check(before == after, f"{name} on {n} ranks: earlier results are untouched")


def wrong_input(folder):
    (folder / "empty.csv").write_text("")
    (folder / "header.csv").write_text("text,label\n")
    (folder / "open.csv").write_text('text,label\n"a,x\n')
    (folder / "short.txt").write_text("[PAD]\na\n")
    (folder / "file").write_text("x")
    refused(folder, "misspelt keys", 2, "prep.toml:", "fils", "max_tokens",
            source__fils='["a"]', tokenizer__max_token="3")
    refused(folder, "a misspelt directory", 2, 'did you mean "directory"', absent=["missing", "empty"],
            output__directory=None, output__directry='"out"')
    refused(folder, "no such vocabulary", 4, "[tokenizer] vocabulary: there is no file or folder nosuch",
            tokenizer__vocabulary='"nosuch"')
    (folder / "model.safetensors").write_bytes(bytes(64))
    refused(folder, "weights as a vocabulary", 4, "holds weights, not a vocabulary: give the model's folder",
            tokenizer__vocabulary='"model.safetensors"')
    refused(folder, "several things at once", 3, '1. [source] files: empty.csv: is empty',
            "2. [source] test_files: none.csv: cannot be opened", "3. [tokenizer] vocabulary: there is no file or folder nosuch",
            "4. [output] directory: file/sub: cannot be written", source__files='["rows.csv", "empty.csv"]',
            source__test_files='["none.csv"]', tokenizer__vocabulary='"nosuch"', output__directory='"file/sub"')
    refused(folder, "keys and files at once", 2, '. prep.toml:', 'unknown key "max_token" in [tokenizer]; did you mean "max_tokens"?',
            'has no columns "txt" (did you mean "text"?) and "score"', "[source] files: none.csv: cannot be opened",
            "[tokenizer] vocabulary: there is no file or folder nosuch", "[output] directory: file/sub: cannot be written",
            source__files='["rows.csv", "none.csv"]', source__text='"txt"', source__label='"score"',
            tokenizer__max_token="3", tokenizer__vocabulary='"nosuch"', output__directory='"file/sub"')
    (folder / "odd.vocab").mkdir()
    (folder / "odd.vocab" / "vocab.txt").write_text("[PAD]\n")
    (folder / "odd.vocab" / "tokenizer_config.json").write_text("{")
    refused(folder, "a vocabulary's folder and files at once", 4, "odd.vocab/tokenizer_config.json", "[CLS]",
            '[source] files: rows.csv: has no column "body"', source__text='"body"', tokenizer__vocabulary='"odd.vocab"')
    # Which columns are meant is not known.
    refused(folder, "no column is missed for want of its key", 2, '"txt"', "none.csv", absent=["no column"],
            source__txt='"other"', source__label='"labl"', source__files='["rows.csv", "none.csv"]')
    refused(folder, "no column is missed for want of the task", 2, "[task] name", absent=["no column"],
            source__label='"labl"', task__name='"classify"')
    refused(folder, "missing column", 3, 'no column "txt"', 'did you mean "text"', '"label" and "value"',
            source__text='"txt"')
    refused(folder, "missing file", 4, "none.csv", "No such file", source__files='["rows.csv", "none.csv"]')
    refused(folder, "empty file", 3, "empty.csv: is empty", source__files='["empty.csv"]')
    refused(folder, "only a header", 3, "No row is left", source__files='["header.csv"]')
    refused(folder, "open quote", 3, "open.csv", "line 2", "never closed", source__files='["open.csv"]')
    refused(folder, "no vocabulary", 3, "short.txt", "[CLS]", tokenizer__vocabulary='"short.txt"')
    refused(folder, "labels are not numbers", 3, "the label is not a number", task__name='"regression"')
    refused(folder, "rows that lack text", 3, "row 6, line 7", filter__drop_missing="false")
    refused(folder, "an output directory that is a file", 4, "file", "directory", output__directory='"file"')
    refused(folder, "too small a vocabulary", 3, "train_size", tokenizer__vocabulary=None, tokenizer__train_size="9")
    (folder / "prep.toml").write_text("[source\n")
    check(run(folder).returncode == 2, "malformed TOML")
    done = subprocess.run(["bert_hpc_prep"], capture_output=True, text=True)
    check(done.returncode == 2 and "usage" in done.stderr, "no input file")
    if os.geteuid() != 0:
        (folder / "locked").mkdir(mode=0o500)
        refused(folder, "an output directory without permission", 4, "locked", output__directory='"locked"')
    toml(folder, output__directory='"elsewhere"')
    check(run(folder, 1, "--validate").returncode == 0, "--validate accepts good input")
    check(not (folder / "elsewhere").exists(), "--validate makes nothing")
    toml(folder, source__text='"txt"')
    check(run(folder, 1, "--validate").returncode == 3, "--validate opens the files")


def case_is_the_vocabularys(folder):
    """A vocabulary's folder states its case. An input that contradicts it is refused; an input without lowercase adopts it."""
    for name, says in (("cased", "false"), ("uncased", "true"), ("silent", None)):
        (folder / name).mkdir()
        (folder / name / "vocab.txt").write_text("\n".join(VOCABULARY + ["A", "##A"]) + "\n")
        if says:
            (folder / name / "tokenizer_config.json").write_text('{"do_lower_case": ' + says + "}")
    (folder / "upper.csv").write_text("text,label\n" + "AA,x\nAA,y\n" * 20)
    upper = {"source__files": '["upper.csv"]', "output__directory": '"upper"'}
    for vocabulary, lowercase in (("cased", False), ("cased/vocab.txt", False), ("uncased", True), ("silent", True)):
        toml(folder, tokenizer__vocabulary=f'"{vocabulary}"', **upper)
        done = run(folder, 2)
        check(done.returncode == 0, f"{vocabulary}: {done.stderr}")
        check(f"; lowercase = {str(lowercase).lower()};" in done.stdout, f"{vocabulary}: the report shows lowercase: {done.stdout}")
        doubt = "warning: 11% of the vocabulary's words contain capital letters"
        check(done.stdout.count(doubt) == (vocabulary == "silent"), f"{vocabulary}: the warning about the case: {done.stdout}")
        checked = run(folder, 1, "--validate")
        check(checked.stdout.count(doubt) == (vocabulary == "silent"), f"{vocabulary}: --validate warns, too: {checked.stdout}")
        with h5py.File(folder / "upper" / "train-00000.h5") as f:
            piece = VOCABULARY.index("a") if lowercase else len(VOCABULARY)
            check(f["input_ids"][1] == piece, f"{vocabulary}: lowercase is {lowercase}")
            check(json.loads(f.attrs["tokenizer"])["lowercase"] is lowercase, f"{vocabulary}: the shard records lowercase")
        settings = json.loads((folder / "upper" / "tokenizer_config.json").read_text())
        check(settings["do_lower_case"] is lowercase, f"{vocabulary}: tokenizer_config.json records do_lower_case")
        word = f"lowercase = {str(lowercase).lower()}"
        check(word in (folder / "upper" / "prep.toml").read_text(), f"{vocabulary}: {word} in prep.toml")
        check(word in run(folder, 1, "--validate").stdout, f"{vocabulary}: {word} in the output of --validate")
    refused(folder, "a case that is not the vocabulary's", 2, "[tokenizer] lowercase: it is true, but cased/tokenizer_config.json",
            "do_lower_case = false", tokenizer__vocabulary='"cased"', tokenizer__lowercase="true")
    toml(folder, tokenizer__vocabulary='"silent"', tokenizer__lowercase="false", **upper)
    done = run(folder)
    check(done.returncode == 0 and "warning" not in done.stdout, f"an unstated case allows any lowercase: {done.stdout}")


def text_is_read_as_the_vocabulary_is_for(folder):
    """Prep follows the text settings of the vocabulary's folder: it keeps accents and whole words of ideographs, and refuses an
    input that contradicts them."""
    (folder / "german").mkdir()
    (folder / "german" / "vocab.txt").write_text("\n".join(VOCABULARY + ["ä", "中文", "中"]) + "\n")
    settings = {"do_lower_case": True, "strip_accents": False, "tokenize_chinese_chars": False}
    (folder / "german" / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "german.csv").write_text("text,label\n" + "Ä 中文,x\nÄ 中文,y\n" * 20, encoding="utf-8")
    german = {"source__files": '["german.csv"]', "output__directory": '"german-out"', "tokenizer__vocabulary": '"german"'}
    toml(folder, **german)
    done = run(folder)
    check(done.returncode == 0, f"accents that stay: {done.stderr}")
    with h5py.File(folder / "german-out" / "train-00000.h5") as f:
        check(list(f["input_ids"][1:3]) == [len(VOCABULARY), len(VOCABULARY) + 1], "accents and ideographs as the folder says")
        stored = json.loads(f.attrs["tokenizer"])
        check((stored["strip_accents"], stored["tokenize_chinese_chars"]) == (False, False), "settings in the shard")
    written = json.loads((folder / "german-out" / "tokenizer_config.json").read_text())
    check({key: written[key] for key in settings} == settings, "tokenizer_config.json records the text settings")
    for key, name in (("strip_accents", "strip_accents"), ("tokenize_chinese_chars", "tokenize_chinese_chars")):
        refused(folder, f"{key} that is not the vocabulary's", 2, f"[tokenizer] {key}: it is true, but german/tokenizer_config.json",
                f"{name} = false", **german, **{f"tokenizer__{key}": "true"})
    refused(folder, "accents stripped of cased text", 2, "[tokenizer] strip_accents: it is true and lowercase is false",
            tokenizer__lowercase="false", tokenizer__strip_accents="true")


def files_by_pattern_and_once(folder):
    for number in (2, 0, 1):
        (folder / f"part-{number}.csv").write_text("text,label\n" + f"{'abc'[number]},x\n" * 10)
    (folder / "link.csv").symlink_to("part-1.csv")
    parts = {"source__files": '["part-*.csv"]', "output__directory": '"parts"'}
    toml(folder, **parts)
    done = run(folder, 2)
    check(done.returncode == 0 and "30 read, 30 kept" in done.stdout, f"a pattern: {done.stdout}{done.stderr}")
    check('files = ["part-0.csv", "part-1.csv", "part-2.csv"]' in (folder / "parts" / "prep.toml").read_text(),
          "prep.toml names the files that were read, in order")
    refused(folder, "a pattern without a match", 4, "[source] files: No file matches 'part?.csv'.",
            source__files='["part?.csv"]')
    refused(folder, "a file twice", 2, "[source] files names 'part-1.csv' twice, also as 'link.csv'", "Name it once",
            source__files='["part-*.csv", "link.csv"]')
    refused(folder, "a file in two splits", 2, "'part-1.csv' is in [source] files and in [source] test_files",
            source__files='["part-0.csv", "part-1.csv"]', source__test_files='["part-1.csv"]')


def likely_mistakes_are_reported(folder):
    (folder / "odd.csv").write_bytes(b"text,label\n" + b"caf\xe9,human\ntea,gpt\nmilk,other\n" * 20)
    toml(folder, source__files='["odd.csv"]', output__directory='"odd"', task__labels='["Human", "gpt"]')
    for ranks in (1, 2):
        done = run(folder, ranks)
        for words in ('warning: no row has the label "Human" of [task] labels; did you mean "human", which 20 rows have?',
                      "warning: only one class: all rows have the label \"gpt\".",
                      '40: the label is not in [task] labels: "human" 20 and "other" 20',
                      'labels      2: "Human" 0 and "gpt" 20'):
            check(done.returncode == 0 and done.stdout.count(words) == 1, f"{words} on {ranks} ranks: {done.stdout}{done.stderr}")
    toml(folder, source__files='["odd.csv"]', output__directory='"odd"')
    done = run(folder)
    check("warning: 20 rows hold bytes that are not UTF-8" in done.stdout and 'encoding = "latin-1"' in done.stdout, done.stdout)
    (folder / "keys.jsonl").write_text('{"text": "a", "label": "x"}\n{"txt": "a", "label": "x"}\n{"text": "b", "label": "y"}\n')
    toml(folder, source__format='"jsonl"', source__files='["keys.jsonl"]', output__directory='"odd"')
    done = run(folder)
    check('1: a column is missing (the first is keys.jsonl, row 2, line 2: the row has no column "text"; its keys are '
          '"label" and "txt"; did you mean "txt"?)' in done.stdout, done.stdout)
    check("warning: [split] validation = 0.1 and test = 0.1 got no rows" in done.stdout, done.stdout)
    refused(folder, "a wrong key", 3, "3 rows: a column is missing", 'no column "body"; its keys are "label" and "text"',
            source__format='"jsonl"', source__files='["keys.jsonl"]', source__text='"body"')


def fewer_shards_replace_more(folder):
    toml(folder)
    run(folder)
    check((folder / "out" / "train-00001.h5").exists(), "several shards at first")
    done = run(folder, 1, "--set", "output.shard_tokens=1000000")
    check(done.returncode == 0 and not (folder / "out" / "train-00001.h5").exists(), "old shards are removed")
    check(not (folder / "out" / ".bert_hpc_prep").exists(), "scratch files are removed")


def too_many_columns(folder):
    """An unquoted comma in a text must not turn the row into another text with another label."""
    (folder / "wide.csv").write_text("id,text,label\n5,a b,x\n6,c,d,y\n7,b a,x\n8,a,y\n9,b,y\n")
    wide = {"source__files": '["wide.csv"]', "output__directory": '"wide"'}
    toml(folder, **wide)
    done = run(folder)
    check(done.returncode == 0 and "1: the row has more columns than the header (see [source] extra_columns)" in done.stdout,
          f"wide rows are rejected: {done.stdout}{done.stderr}")
    rejects = (folder / "wide" / "rejects.tsv").read_text().splitlines()
    check(rejects[1:] == ["wide.csv\t2\t3\tthe row has 4 columns, the header 3"], f"rejects.tsv: {rejects}")
    toml(folder, source__extra_columns="true", **wide)
    done = run(folder)
    check(done.returncode == 0 and "5 read, 5 kept" in done.stdout, f"extra columns are allowed: {done.stdout}{done.stderr}")


def replaced_shards_are_reported(folder):
    """Prep replaces the results of an earlier run and reports in one line whether they came from the same input."""
    toml(folder, output__directory='"twice"')
    first = run(folder)
    check(first.returncode == 0 and "replace" not in first.stdout, f"nothing is replaced at first: {first.stdout}")
    count = len(list((folder / "twice").glob("*.h5")))
    line = f"{count} shards of an earlier run in twice, "
    for ranks in (1, 2):
        again = run(folder, ranks)
        check("replaced " + line + "made with the same input file" in again.stdout.splitlines(), f"the same input: {again.stdout}")
    check("would replace " + line in run(folder, 1, "--validate").stdout, "--validate reports the shards that would be replaced")
    failed = run(folder, 1, "--set", 'source.text="other"', "--set", 'task.labels=["no such label"]')
    check(failed.returncode == 3 and "replace" not in failed.stdout, f"nothing was replaced: {failed.stdout}{failed.stderr}")
    other = run(folder, 1, "--set", "split.seed=7", "--set", "tokenizer.max_tokens=9")
    check("replaced " + line + "made with another input file: it differs in [split] seed and [tokenizer] max_tokens"
          in other.stdout.splitlines(), f"another input: {other.stdout}")
    (folder / "twice" / "prep.toml").write_text("[\n")
    check("whose prep.toml is missing or cannot be read" in run(folder).stdout, "an unknown input")


with tempfile.TemporaryDirectory() as scratch:
    folder = pathlib.Path(scratch)
    text, table = rows(1500)
    (folder / "rows.csv").write_text(text)
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    same_on_any_ranks(folder)
    shutil.rmtree(folder / "out", ignore_errors=True)
    shards_say_what_the_text_said(folder, table)
    long_rows_become_windows(folder, table)
    wrong_input(folder)
    case_is_the_vocabularys(folder)
    text_is_read_as_the_vocabulary_is_for(folder)
    files_by_pattern_and_once(folder)
    likely_mistakes_are_reported(folder)
    fewer_shards_replace_more(folder)
    too_many_columns(folder)
    replaced_shards_are_reported(folder)
print(f"{len(failures)} failures")
sys.exit(1 if failures else 0)
