"""The paper's competitors, in the harness of HadamRNN. Start at `hadamrnn_paper.baselines.networks`."""
