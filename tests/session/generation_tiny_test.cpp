#include <gtest/gtest.h>

#include <bit>
#include <numeric>

#include "session/session.h"
#include "support/expect_error.h"
#include "support/logits.h"
#include "support/tiny_model.h"

namespace pith::test {
namespace {

constexpr int kPrompt = 120;
const TinyModelOptions kOptions{.n_layer = 2, .n_head = 6, .n_head_kv = 2, .head_dim = 32};
constexpr int kRows = 4;

class TinyGeneration : public ::testing::Test {
 protected:
  /// After a prompt of which a quarter is kept.
  Session prompted(const char* policy = "snapkv") const {
    Session s(model, {.threads = 2, .n_ctx = 1000, .k_type = KvType::f32, .v_type = KvType::f32});
    s.prefill(prompt);
    s.compress(policy, "25%");
    return s;
  }

  TinyModel tiny{kOptions};
  Model model = Model::load(tiny.path());
  std::vector<int32_t> prompt = random_tokens(kPrompt, kOptions.n_vocab, 7);
  std::vector<int32_t> later = random_tokens(300, kOptions.n_vocab, 8);
};

std::vector<int32_t> positions(Session& s, int row) {
  const auto span = s.impl().cache.positions(row / 2, row % 2);
  return {span.begin(), span.end()};
}

TEST_F(TinyGeneration, NeverHoldsMoreThanItsBound) {
  for (const char* policy :
       {"behavior+smooth(kernel=5)", "snapkv+ada", "streaming", "tova+global"}) {
    Session s = prompted();
    const int64_t before = s.receipt().entries_kept;
    s.compress_generated({.policy = policy, .kept = 40, .every = 16, .window = 8});
    int64_t most = 0, least = INT64_MAX;
    for (size_t i = 0; i < later.size(); ++i) {
      s.decode(later[i]);
      const int64_t held = s.impl().cache.total_entries() - before;
      most = std::max(most, held);
      if (i > 40) least = std::min(least, held);
    }
    EXPECT_EQ(most, int64_t{39} * kRows) << policy;  // 24 after a compression, 15 more before one
    EXPECT_EQ(least, int64_t{24} * kRows) << policy;
    const GenerationReceipt done = s.receipt().generation;
    EXPECT_EQ(done.compressions, 300 / 16 - 1) << policy;  // after 16 tokens there is nothing to do
    EXPECT_EQ(s.impl().cache.total_entries(), before + 300 * kRows - done.entries_evicted);
    EXPECT_EQ(s.next_position(), kPrompt + 300);
  }
}

TEST_F(TinyGeneration, KeepsThePromptAndTheNewest) {
  Session s = prompted();
  std::vector<std::vector<int32_t>> prompt_entries;
  prompt_entries.reserve(kRows);
  for (int row = 0; row < kRows; ++row) prompt_entries.push_back(positions(s, row));
  s.compress_generated({.policy = "streaming", .kept = 30, .every = 10, .window = 5});
  for (int i = 0; i < 35; ++i) s.decode(later[size_t(i)]);
  for (int row = 0; row < kRows; ++row) {
    // Compressed after 30 tokens to the newest 20; five more have come since.
    std::vector<int32_t> expected = prompt_entries[size_t(row)];
    for (int p = kPrompt + 10; p < kPrompt + 35; ++p) expected.push_back(p);
    EXPECT_EQ(positions(s, row), expected);
  }
}

/// One compression while generating is the compression of the same cache after the same tokens.
TEST_F(TinyGeneration, EqualsACompressionOfWhatCameSince) {
  for (const char* policy : {"behavior", "snapkv+global", "caote"}) {
    Session generated = prompted();
    generated.compress_generated({.policy = policy, .kept = 60, .every = 40, .window = 8});
    for (int i = 0; i < 40; ++i) generated.decode(later[size_t(i)]);

    Session read = prompted();
    read.prefill(std::span(later).first(40), needs_of(policy));
    // Of 40 entries a head 20 stay: the window of 8 and 12 others.
    read.impl().compress_after(kPrompt, 8, Policy::parse(policy), Budget::parse("12"), {});
    for (int row = 0; row < kRows; ++row) {
      EXPECT_EQ(positions(generated, row), positions(read, row)) << policy;
    }
  }
}

TEST_F(TinyGeneration, TheReceiptStaysThatOfThePrompt) {
  Session s = prompted("sensitivity");
  const Receipt before = s.receipt();
  s.compress_generated({.policy = "sensitivity", .kept = 40, .every = 16, .window = 8});
  for (const int32_t token : later) s.decode(token);
  const Receipt after = s.receipt();
  EXPECT_EQ(after.policy, before.policy);
  EXPECT_EQ(after.entries_kept, before.entries_kept);
  EXPECT_EQ(after.entries_protected, before.entries_protected);
  EXPECT_GT(after.time_s.score, before.time_s.score);
  EXPECT_GT(after.time_s.apply, before.time_s.apply);
  // That there is no calibration is said once, not at each of 17 compressions.
  EXPECT_EQ(after.notes, before.notes);
}

TEST_F(TinyGeneration, ReadsTurnsThatComeAtOnce) {
  Session s = prompted();
  const int64_t before = s.receipt().entries_kept;
  s.compress_generated({.policy = "behavior", .kept = 40, .every = 16, .window = 8});
  s.prefill(std::span(later).first(100), {});  // in blocks of 16, the last compressed one at 96
  EXPECT_EQ(s.impl().cache.total_entries(), before + (24 + 4) * kRows);
  s.evaluate(std::span(later).first(50));
  EXPECT_EQ(s.impl().cache.total_entries(), before + 24 * kRows);
}

/// Called first, the bound is on all that is read and said.
TEST_F(TinyGeneration, APromptOfAnyLengthIsReadWithinTheBound) {
  for (const char* policy : {"pith-stream", "streaming", "behavior"}) {
    Session s(model, {.threads = 2, .n_ctx = 1000});
    s.compress_generated({.policy = policy, .kept = 40, .every = 16, .window = 8});
    for (size_t at = 0; at < 300; at += 50) {
      s.prefill(std::span(later).subspan(at, 50));
      EXPECT_LT(s.impl().cache.total_entries(), 40 * kRows) << policy;
    }
    for (int i = 0; i < 40; ++i) {
      s.decode(prompt[size_t(i)]);
      EXPECT_LT(s.impl().cache.total_entries(), 40 * kRows) << policy;
    }
    for (int row = 0; row < kRows; ++row) {
      const auto kept = positions(s, row);
      const std::vector<int32_t> sinks(kept.begin(), kept.begin() + 4);
      EXPECT_EQ(sinks, (std::vector<int32_t>{0, 1, 2, 3})) << policy;
      EXPECT_EQ(kept.back(), 339) << policy;
    }
    const Receipt receipt = s.receipt();
    EXPECT_EQ(receipt.n_tokens, 340);
    EXPECT_EQ(receipt.entries_full, 340 * kRows);
    EXPECT_EQ(receipt.entries_kept, s.impl().cache.total_entries());
    EXPECT_GT(receipt.bytes_full, 5 * receipt.bytes_kept);
  }
}

TEST(BinaryCounter, MergesWhatStandsForAsManyBlocks) {
  std::vector<Summary> summaries;
  for (int block = 1; block <= 13; ++block) {
    summaries.push_back(carry(summaries, 100, 100 + 8 * block));
    EXPECT_EQ(summaries.size(), size_t(std::popcount(unsigned(block)))) << block;
    int32_t at = 100;
    for (const Summary& s : summaries) {
      EXPECT_EQ(s.from, at);
      EXPECT_EQ(s.end - s.from, 8 << s.level);
      at = s.end;
    }
    EXPECT_EQ(at, 100 + 8 * block);
  }
}

/// Entries of each summary are as many as it has a share of, whatever was read; one that was
/// complete keeps its entries until it is merged.
TEST_F(TinyGeneration, ACounterReducesEachSummaryOnItsOwn) {
  Session s = prompted();
  const int64_t before = s.receipt().entries_kept;
  const GenerationOptions asked{
      .policy = "pith-stream", .kept = 90, .every = 16, .window = 16, .pool = Pool::counter};
  s.compress_generated(asked);  // 880 positions to come: 55 blocks, at most 6 summaries of 9
  std::vector<std::vector<int32_t>> first(kRows);
  for (int i = 0; i < 260; ++i) {
    s.decode(later[size_t(i)]);
    EXPECT_LE(s.impl().cache.total_entries() - before, int64_t{asked.kept} * kRows) << i;
    for (int row = 0; row < kRows; ++row) {
      auto oldest = positions(s, row);
      std::erase_if(oldest, [](int32_t p) { return p < kPrompt || p >= kPrompt + 8 * 16; });
      if (i == 9 * 16 - 1) first[size_t(row)] = oldest;  // eight blocks merged
      if (i > 9 * 16) {
        EXPECT_EQ(oldest, first[size_t(row)]) << i;
      }
    }
  }
  // After 256 tokens 15 blocks have left the window: summaries of 8, 4, 2 and 1 of them.
  EXPECT_EQ(s.impl().cache.total_entries() - before, int64_t{4 * 9 + 16 + 4} * kRows);
  EXPECT_EQ(s.receipt().generation.pool, Pool::counter);
  s.trim(kPrompt + 8 * 16 + 1);
  for (int i = 0; i < 100; ++i) s.decode(later[size_t(i)]);
  EXPECT_LE(s.impl().cache.total_entries() - before, int64_t{asked.kept} * kRows);
}

/// A counter bounds a prompt too, and its blocks are the same however the prompt is handed over.
TEST_F(TinyGeneration, ACounterReadsAPromptOfAnyLength) {
  const auto after = [&](const std::vector<size_t>& parts) {
    Session s(model, {.threads = 2, .n_ctx = 400, .k_type = KvType::f32, .v_type = KvType::f32});
    s.compress_generated(
        {.policy = "pith-stream", .kept = 80, .every = 16, .window = 8, .pool = Pool::counter});
    size_t at = 0;
    for (const size_t part : parts) {
      s.prefill(std::span(later).subspan(at, part));
      at += part;
    }
    EXPECT_LE(s.impl().cache.total_entries(), 80 * kRows);
    EXPECT_EQ(positions(s, 0)[3], 3);  // the sinks stay
    return s.evaluate(std::span(prompt).first(6));
  };
  EXPECT_LT(nmse(after({70, 1, 129}), after({200})), 1e-9);
}

/// Blocks see themselves and what stayed before them: where all stays, how they are cut is of no
/// consequence, and where it does not, how the prompt is handed over is of none.
TEST_F(TinyGeneration, BlocksOfAPromptDoNotShowWhereNothingGoes) {
  const auto after = [&](int kept, int every, const std::vector<size_t>& parts) {
    Session s(model, {.threads = 2, .n_ctx = 1000, .k_type = KvType::f32, .v_type = KvType::f32});
    if (every > 0) {
      s.compress_generated({.policy = "streaming", .kept = kept, .every = every, .window = 8});
    }
    size_t at = 0;
    for (const size_t part : parts) {
      s.prefill(std::span(later).subspan(at, part));
      at += part;
    }
    return s.evaluate(std::span(prompt).first(6));
  };
  const auto whole = after(0, 0, {200});
  for (const int every : {7, 16, 64, 300}) {
    EXPECT_LT(nmse(after(700, every, {200}), whole), 1e-9) << every;
  }
  const auto bounded = after(60, 20, {200});
  EXPECT_GT(nmse(bounded, whole), 1e-6);
  EXPECT_LT(nmse(after(60, 20, {70, 1, 129}), bounded), 1e-9);
}

TEST_F(TinyGeneration, ForksGoOnApartAndTrimsStayInStep) {
  Session s = prompted();
  s.compress_generated({.policy = "snapkv", .kept = 40, .every = 16, .window = 8});
  for (int i = 0; i < 30; ++i) s.decode(later[size_t(i)]);
  Session fork = s.fork();
  for (int i = 30; i < 60; ++i) {
    s.decode(later[size_t(i)]);
    fork.decode(later[size_t(i)]);
  }
  for (int row = 0; row < kRows; ++row) EXPECT_EQ(positions(s, row), positions(fork, row));
  fork.trim(kPrompt - 10);
  for (int i = 0; i < 80; ++i) fork.decode(later[size_t(i)]);
  EXPECT_LE(fork.impl().cache.total_entries(), prompted().receipt().entries_kept + 40 * kRows);
}

TEST_F(TinyGeneration, WhatCannotBeDoneIsRefused) {
  Session s = prompted();
  const auto refused = [&](const GenerationOptions& options, const char* reason) {
    expect_error(ErrorCode::usage, reason, [&] { s.compress_generated(options); });
  };
  refused({.policy = "h2o"}, "does not work while generating");
  refused({.policy = "kvzip"}, "does not work while generating");
  refused({.policy = "full"}, "full evicts nothing");
  refused({.every = 0}, "takes 1 or more");
  refused({.window = -1}, "at least 0");
  refused({.kept = 192, .every = 128, .window = 64}, "keep at least 193");
  refused({.policy = "nonsense"}, "nonsense");
  refused({.kept = 194, .every = 128, .window = 64, .pool = Pool::counter}, "up to 3 summaries");
  s.decode(later[0]);
  EXPECT_EQ(s.receipt().generation.policy, "");
}

}  // namespace
}  // namespace pith::test
