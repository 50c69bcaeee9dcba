"""The paper's competitors, trained with HadamRNN's training code. Start at `hadamrnn_paper.baselines.networks`."""
