"""Scores of the fine target's drafts give the cells of results/fine_drafts, records its lengths."""

import json

import pytest
from kept_runs import assert_cell, assert_difference, cells, lines, scores, tokens_a_round

FOLDER, TABLE = "fine_drafts", "fine_drafts/training_seeds"
