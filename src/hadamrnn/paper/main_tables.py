"""The paper's main tables (Section 4) as data, and the list of all tables.

Every number is as printed. A row without a setup is published only; `note` names misprints and fitted
values. The appendix's tables are in `appendix_tables`, our own rows in `beyond`.
Start at `TABLES`.
"""

from __future__ import annotations

from hadamrnn.paper import appendix_tables, beyond
from hadamrnn.paper.rows import Table, Task, competitor, hadam, setup, trained

COPY_NOTE = (
    "The tables' headings print T = 1000; the text has delay L = 1000 and T = L + 2K = 1020, which is what "
    "runs here. The baseline 0.021 is 10 ln 8 / 1000; at T = 1020 it is 0.0204."
)
EMBEDDING_NOTE = "Sizes leave the embedding table out, as the paper's do."
SST2_NOTE = (
    f"{EMBEDDING_NOTE} The published figure comes from GLUE's website; ours is over the same test sentences, "
    "with the public treebank's labels."
)
CHOSEN_NOTE = "Published without hyper-parameters: preset paper is our choice of them."
DSA19_NOTE = (
    f"{CHOSEN_NOTE} Nor does the paper name its split. Ours is by person, four against four, in both "
    "directions. That sensors are turned at random in training was chosen by leaving each of the four people "
    "out in turn: preset quick ends at 81.5 % with it and at 75.1 % without (--rotation 0). Then all four "
    "train, so validation chooses nothing."
)
HAR2_NOTE = (
    f"{CHOSEN_NOTE} Ours stays behind; validation holds out four people, and the nine of the test set are "
    "harder. Tried by validation: learnt signs, for the whole run and for half of it; 8, 32 and 128 blocks; "
    "a ReLU recurrence; fewer negative signs; 0, 30 and 60 % of the samples hidden; random offsets, scales "
    "and shifts of the channels, and rotations; clipped weights; ten seeds, which differ by five points. "
    "2048 units at 2 bits (Past the paper) are better on average and differ by one, but four people are too "
    "few to choose them. Layers of 64 and 128 units that forget, which read small movements in channels of "
    "their own (fine channels, Past the paper), come near at half the bytes. FastGRNN, trained here "
    "by the same rule, stays behind its published figure too."
)
_TASKS = (
    Task("copy", "Copy task", 1020, 10, 9, "cross_entropy", epochs=10, baseline=0.021, note=COPY_NOTE),
    Task("pmnist", "Permuted MNIST", 784, 1, 10, epochs=200),
    Task("smnist", "Sequential MNIST", 784, 1, 10, epochs=200),
    Task("imdb", "IMDB", 500, 512, 1, epochs=30, vocabulary_size=10_000, note=EMBEDDING_NOTE),
    Task("sst2", "SST-2", 128, 256, 1, epochs=60, vocabulary_size=30_522, note=SST2_NOTE),
    Task("qqp", "QQP", 128, 256, 1, epochs=50, vocabulary_size=30_522, note=EMBEDDING_NOTE),
    Task("har2", "HAR-2", 128, 9, 1, note=HAR2_NOTE),
    Task("dsa19", "DSA-19", 125, 45, 19, note=DSA19_NOTE, own_split=True),
    Task("har6", "UCI HAR, six activities", 128, 9, 6),
    Task("google12", "Google-12", 99, 32, 12),
)
TASKS: dict[str, Task] = {task.name: task for task in _TASKS}


KIANI, FOUCAULT = "Kiani et al. 2022", "Foucault et al. 2024"
JING, ARDAKANI = "Jing et al. 2017", "Ardakani et al. 2018"
ALOM, HE = "Alom et al. 2018", "He et al. 2016"
QORNN_SIZE = "Size fits p bits for W and U, 32 for V, no biases."
QORNN_NOTE = f"{QORNN_SIZE} Trained here with activations in floats."
LSTM_SIZE = "Its size without biases is 112.5 kB."
NO_RULE = "No rule was found for this size."


RESULTS = Table(
    "results",
    "HadamRNN and the state of the art",
    "tab:full_results",
    "Table 2, Section 4.2.1",
    (
        competitor("copy", "LSTM", JING, "BL", "112", 80, "FP FP FP", note=LSTM_SIZE),
        competitor("copy", "ORNN", KIANI, "1.1e-12", "275", 256, "FP FP FP"),
        competitor("copy", "QORNN", FOUCAULT, "1.7e-5", "75.5", 256, "8 8 12", note=QORNN_SIZE),
        competitor("copy", "QORNN", FOUCAULT, "2.5e-3", "50.6", 256, "5 5 12", note=QORNN_SIZE),
        hadam(
            setup("copy", 128, 2),
            "BL",
            kilobytes="1.44",
            misprint=True,
            note="Printed size 1.44: a misprint, the paper's rule gives 1.14.",
        ),
        hadam(setup("copy", 128, 4), "1.6e-7", kilobytes="1.74"),
        hadam(setup("copy", 128, 4), "2.3e-7", 12, kilobytes="1.40"),
        hadam(setup("copy", 128, 6), "3.2e-8", kilobytes="2.33"),
        trained(competitor("pmnist", "ORNN", KIANI, "97.00", "1046.0", 512, "FP FP FP")),
        trained(competitor("pmnist", "ORNN", KIANI, "94.30", "120.2", 170, "FP FP FP")),
        competitor("pmnist", "LSTM", KIANI, "92.00", "456.9", 170, "FP FP FP", note="Size leaves V out."),
        trained(competitor("pmnist", "QORNN", FOUCAULT, "94.76", "35.0", 170, "8 8 12", note=QORNN_NOTE)),
        trained(competitor("pmnist", "QORNN", FOUCAULT, "93.94", "27.9", 170, "6 6 12", note=QORNN_NOTE)),
        hadam(setup("pmnist", 512, 2), "91.13", kilobytes="3.48"),
        hadam(setup("pmnist", 512, 4), "94.88", kilobytes="4.85"),
        hadam(setup("pmnist", 512, 4), "94.90", 12, kilobytes="3.58"),
        hadam(setup("pmnist", 512, 6), "95.85", kilobytes="6.23"),
        competitor("smnist", "LSTM", ARDAKANI, "98.6", "5.11", 100, "0 1 12", note=NO_RULE),
        competitor("smnist", "FastGRNN", "Kusupati et al. 2018", "98.2", "6.0", 170, "8 8 16"),
        trained(competitor("smnist", "ORNN", "Lezcano-Casado et al. 2019", "98.7", "1046", 512, "FP FP FP")),
        trained(competitor("smnist", "QORNN", FOUCAULT, "96.2", "35.0", 170, "8 8 12", note=QORNN_NOTE)),
        trained(competitor("smnist", "QORNN", FOUCAULT, "94.74", "27.9", 170, "6 6 12", note=QORNN_NOTE)),
        hadam(setup("smnist", 512, 2), "92.65", kilobytes="3.48"),
        hadam(setup("smnist", 512, 4), "96.63", kilobytes="4.85"),
        hadam(setup("smnist", 512, 4), "96.34", 12, kilobytes="3.58"),
        hadam(setup("smnist", 512, 6), "96.9", kilobytes="6.23"),
        trained(competitor("imdb", "LSTM", ALOM, "76.25", "40.50", 128, "0 1 FP"), "quantized_lstm"),
        trained(competitor("imdb", "LSTM", ALOM, "79.64", "80.5", 128, "0 2 FP"), "quantized_lstm"),
        competitor("imdb", "LSTM", HE, "88.12", "514", 512, "0 2 2"),
        competitor("imdb", "LSTM", HE, "88.48", "1026", 512, "0 4 4"),
        trained(competitor("imdb", "ORNN", "the paper", "84.02", "320.5", 128, "FP FP FP")),
        hadam(setup("imdb", 128, "ternary"), "81.18", kilobytes="16.55", note="Ternary counts as 2 bits."),
        hadam(setup("imdb", 128, 2), "85.34", kilobytes="16.55"),
        hadam(setup("imdb", 128, 2), "85.18", 12, kilobytes="16.24"),
        hadam(setup("imdb", 512, 4), "87.43", kilobytes="130.32"),
        hadam(setup("imdb", 512, 4), "87.13", 12, kilobytes="129.06"),
    ),
)


BLOCKS = Table(
    "blocks",
    "Block-HadamRNN and HadamRNN",
    "tab:block_full_results",
    "Table 3, Section 4.2.2",
    tuple(
        hadam(setup(task, hidden_size, 4, num_blocks), published, additions=additions)
        for task, hidden_size, num_blocks, published, additions in (
            ("copy", 128, 32, "1.6e-3", 512),
            ("copy", 128, 8, "6.6e-5", 2048),
            ("copy", 128, 2, "2.0e-6", 8192),
            ("copy", 128, 1, "1.6e-7", 16_384),
            ("pmnist", 512, 128, "60.74", 2048),
            ("pmnist", 512, 32, "91.42", 8192),
            ("pmnist", 512, 8, "91.45", 32_768),
            ("pmnist", 512, 2, "93.12", 131_072),
            ("pmnist", 512, 1, "94.88", 262_144),
            ("smnist", 512, 128, "27.45", 2048),
            ("smnist", 512, 32, "80.60", 8192),
            ("smnist", 512, 8, "92.49", 32_768),
            ("smnist", 512, 2, "96.47", 131_072),
            ("smnist", 512, 1, "96.63", 262_144),
            ("imdb", 512, 128, "81.83", 2048),
            ("imdb", 512, 32, "84.27", 8192),
            ("imdb", 512, 8, "85.70", 32_768),
            ("imdb", 512, 2, "86.30", 131_072),
            ("imdb", 512, 1, "87.43", 262_144),
        )
    ),
)

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        RESULTS,
        BLOCKS,
        appendix_tables.VARIABILITY,
        appendix_tables.GLUE,
        appendix_tables.IOT,
        appendix_tables.ABLATION,
        appendix_tables.COLUMNS,
        beyond.BEYOND,
        beyond.BASELINES,
    )
}
