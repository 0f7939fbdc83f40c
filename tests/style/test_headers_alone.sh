#!/usr/bin/env bash
# Each public header compiles by itself, twice included.
exec cmake --build "$BERT_HPC_BUILD" --target headers_alone
