#!/usr/bin/env python3
"""Loads Hugging Face folders that bert_hpc wrote with Transformers itself, strictly: no missing, unexpected or
mis-shaped key and no warning; with a second folder, equal weights and equal logits.

    python3 check_export.py FOLDER [REFERENCE]       exit status 77 where torch or transformers is missing
"""

import json
import logging
import os
import sys
import warnings


def load(folder):
    import transformers

    with open(os.path.join(folder, "config.json")) as file:
        architecture = json.load(file)["architectures"][0]
    kinds = {
        "ForSequenceClassification": transformers.AutoModelForSequenceClassification,
        "ForMaskedLM": transformers.AutoModelForMaskedLM,
        "ForQuestionAnswering": transformers.AutoModelForQuestionAnswering,
        "ForTokenClassification": transformers.AutoModelForTokenClassification,
        "LMHeadModel": transformers.AutoModelForCausalLM,
    }
    kind = next(kind for suffix, kind in kinds.items() if architecture.endswith(suffix))
    model, info = kind.from_pretrained(folder, output_loading_info=True)
    problems = {key: value for key, value in info.items() if value}
    if problems:
        sys.exit(f"{folder}: Transformers reports {problems}")
    if type(model).__name__ != architecture:
        sys.exit(f"{folder}: is read as {type(model).__name__}, not {architecture}")
    return model.eval()


def main():
    try:
        import torch
        import transformers
    except ImportError as missing:
        print(f"skipped: {missing}")
        return 77
    os.environ["HF_HUB_OFFLINE"] = "1"
    warnings.simplefilter("error")
    messages = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: messages.append(record.getMessage())
    transformers.logging.get_logger().addHandler(handler)
    model = load(sys.argv[1])
    if messages:
        sys.exit(f"{sys.argv[1]}: Transformers warns: {messages}")
    if len(sys.argv) > 2:
        reference = load(sys.argv[2])
        ours, theirs = model.state_dict(), reference.state_dict()
        if ours.keys() != theirs.keys():
            sys.exit(f"keys differ: {sorted(ours.keys() ^ theirs.keys())}")
        for name, value in theirs.items():
            if not torch.equal(ours[name], value):
                sys.exit(f"{name} differs")
        ids = torch.arange(min(16, model.config.vocab_size)).reshape(1, -1)
        for output, expected in zip(model(ids).to_tuple(), reference(ids).to_tuple(), strict=True):
            if not torch.equal(output, expected):
                sys.exit("logits differ")
    print(f"{sys.argv[1]}: read by Transformers {transformers.__version__} without a word")
    return 0


if __name__ == "__main__":
    sys.exit(main())
