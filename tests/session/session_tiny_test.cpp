#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "session/session.h"
#include "support/expect_error.h"
#include "support/logits.h"
#include "support/tiny_model.h"

namespace pith::test {
namespace {

constexpr int kPrompt = 200;
constexpr std::array kPaths = {AttentionPath::ragged, AttentionPath::portable,
                               AttentionPath::products};
const TinyModelOptions kOptions{.n_layer = 3, .n_head = 6, .n_head_kv = 2, .head_dim = 32};

/// A random model with an F32 cache, so that paths and chunks agree to rounding.
class TinySession : public ::testing::Test {
 protected:
  Session session(int n_ubatch = 512, AttentionPath path = AttentionPath::ragged,
                  int threads = 2) const {
    return Session(model, {.threads = threads,
                           .n_ctx = 1000,
                           .n_ubatch = n_ubatch,
                           .k_type = KvType::f32,
                           .v_type = KvType::f32,
                           .attention = path});
  }

  /// After the prompt and a compression.
  Session compressed(std::string_view policy, std::string_view budget,
                     AttentionPath path = AttentionPath::ragged) const {
    Session s = session(512, path);
    s.prefill(prompt);
    s.compress(policy, budget);
    return s;
  }

  TinyModel tiny{kOptions};
  Model model = Model::load(tiny.path());
  std::vector<int32_t> prompt = random_tokens(kPrompt, kOptions.n_vocab, 7);
  std::vector<int32_t> later = random_tokens(40, kOptions.n_vocab, 8);
};

using KeptSet = std::vector<std::vector<int32_t>>;

KeptSet kept_positions(Session& s) {
  KeptSet kept;
  const KvCache& cache = s.impl().cache;
  for (int il = 0; il < cache.geometry().n_layer; ++il) {
    for (int h = 0; h < cache.geometry().n_head_kv; ++h) {
      const auto positions = cache.positions(il, h);
      kept.emplace_back(positions.begin(), positions.end());
    }
  }
  return kept;
}

double worst_difference(std::span<const float> a, std::span<const float> b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0;
  for (size_t i = 0; i < b.size(); ++i) worst = std::max(worst, std::abs(double(a[i]) - b[i]));
  return worst;
}

TEST_F(TinySession, ChunkedPrefillKeepsTheSameEntries) {
  for (const char* policy : {"snapkv", "behavior", "random", "streaming", "h2o", "expected"}) {
    KeptSet whole;
    for (const int n_ubatch : {kPrompt, 64, 7, 1}) {
      Session s = session(n_ubatch);
      s.prefill(prompt, needs_of(policy));
      s.compress(policy, "25%");
      if (whole.empty()) whole = kept_positions(s);
      EXPECT_EQ(kept_positions(s), whole) << policy << ", ubatch " << n_ubatch;
    }
  }
}

/// Log-weights take their part of a budget in bytes.
TEST_F(TinySession, ByteBudgetsHoldWithLogWeights) {
  for (const char* policy : {"snapkv+weights", "snapkv+omp+global", "random+inverse"}) {
    Session s = session();
    s.prefill(prompt, needs_of(policy));
    const Receipt receipt = s.compress(policy, "64KiB");
    EXPECT_LE(receipt.bytes_kept, 64 << 10) << policy;
    EXPECT_GT(receipt.bytes_kept, 63 << 10) << policy;
  }
}

TEST_F(TinySession, PrefillInSeveralCallsObservesTheSameTail) {
  Session whole = compressed("snapkv", "25%");
  Session parts = session();
  for (size_t at = 0; at < prompt.size(); at += 50) {
    parts.prefill(std::span(prompt).subspan(at, 50));
  }
  parts.compress("snapkv", "25%");
  EXPECT_EQ(kept_positions(parts), kept_positions(whole));
}

TEST_F(TinySession, TheWholePromptIsObservedWhereAPolicyNeedsIt) {
  Session s = session(64);
  s.prefill(std::span(prompt).first(120), needs_of("h2o"));
  s.prefill(std::span(prompt).subspan(120), needs_of("h2o") | needs_of("snapkv"));
  const Observation& all = *s.impl().prompt;
  const Observation& tail = s.impl().seen;
  ASSERT_EQ(all.positions.size(), prompt.size());
  for (size_t il = 0; il < all.query.size(); ++il) {
    const auto& queries = all.query[il];
    const size_t count = tail.query[il].size();
    EXPECT_TRUE(
        std::equal(queries.end() - ptrdiff_t(count), queries.end(), tail.query[il].begin()));
  }
  EXPECT_EQ(s.compress("h2o", "25%").entries_kept, kPrompt * 6 / 4);
}

TEST_F(TinySession, APromptThatWasNotObservedIsRefused) {
  Session s = session();
  s.prefill(prompt);
  expect_error(ErrorCode::usage, "h2o reads the queries of the whole prompt, and 0 of 200",
               [&] { s.compress("h2o", "25%"); });
  s.prefill(later, needs_of("h2o"));
  expect_error(ErrorCode::usage, "and 40 of 240", [&] { s.compress("h2o", "25%"); });
  EXPECT_EQ(s.receipt().entries_kept, 240 * 6);
}

/// Trimming a session whose observed prompt a fork shares leaves the fork's alone.
TEST_F(TinySession, ForksKeepTheirObservedPrompt) {
  Session s = session();
  s.prefill(prompt, needs_of("h2o"));
  Session fork = s.fork();
  s.trim(100);
  s.compress("h2o", "25%");
  EXPECT_EQ(fork.compress("h2o", "25%").entries_full, kPrompt * 6);
}

TEST_F(TinySession, AChunkOverACompressedCacheEqualsOneByOne) {
  for (const auto path : kPaths) {
    for (const char* policy : {"snapkv", "behavior"}) {
      const Session base = compressed(policy, "20%", path);
      const auto at_once = base.fork().evaluate(later);
      Session step = base.fork();
      std::vector<float> one_by_one;
      for (const int32_t token : later) {
        const auto row = step.decode(token);
        one_by_one.insert(one_by_one.end(), row.begin(), row.end());
      }
      EXPECT_LE(worst_difference(at_once, one_by_one), 1e-3) << policy;
    }
  }
}

TEST_F(TinySession, AttentionPathsAgreeOverACompressedWeightedCache) {
  std::array<std::vector<float>, 3> logits;
  for (const auto path : kPaths) {
    Session s = compressed("behavior", "30%", path);
    KvCache& cache = s.impl().cache;
    Plan plan;
    for (int r = 0; r < model.shape().n_rows(); ++r) {
      RowPlan& row = plan.rows.emplace_back();
      for (int i = r % 3; i < cache.length(r / 2, r % 2); i += 2) {
        row.keep.push_back(i);
        row.log_weight.push_back(float(i % 5) - 2);
      }
    }
    cache.apply(plan);
    logits[size_t(path)] = s.evaluate(later);
  }
  EXPECT_LE(nmse(logits[1], logits[0]), 1e-6);  // log-weights in F16
  EXPECT_LE(nmse(logits[2], logits[0]), 1e-9);
}

TEST_F(TinySession, ABudgetOfTheWholeCacheChangesNotOneBit) {
  Session full = session();
  full.prefill(prompt);
  for (const char* budget : {"100%", "200", "1GiB"}) {
    Session s = full.fork();
    const Receipt receipt = s.compress("behavior", budget);
    EXPECT_EQ(receipt.entries_kept, receipt.entries_full);
    EXPECT_EQ(worst_difference(s.evaluate(later), full.fork().evaluate(later)), 0) << budget;
  }
  Session s = full.fork();
  s.compress("full", "10%");
  EXPECT_EQ(worst_difference(s.evaluate(later), full.fork().evaluate(later)), 0);
}

TEST_F(TinySession, ReceiptTellsWhatTheCacheHolds) {
  Session s = session();
  s.prefill(prompt);
  const Receipt receipt = s.compress("snapkv", "25%");
  const int64_t full = int64_t(kPrompt) * model.shape().n_rows();
  EXPECT_EQ(receipt.n_tokens, kPrompt);
  EXPECT_EQ(receipt.entries_full, full);
  EXPECT_EQ(receipt.entries_kept, full / 4);
  EXPECT_EQ(receipt.entries_kept, s.impl().cache.total_entries());
  EXPECT_EQ(receipt.bytes_kept, int64_t(s.impl().cache.bytes().total()));
  EXPECT_EQ(receipt.bytes_kept * 4, receipt.bytes_full);
  EXPECT_EQ(receipt.budget_requested, "25%");
  int64_t kept = 0;
  for (const auto& layer : receipt.kept) kept = std::accumulate(layer.begin(), layer.end(), kept);
  EXPECT_EQ(kept, receipt.entries_kept);
}

TEST_F(TinySession, TheNextPositionCountsTokensNotEntries) {
  Session s = compressed("streaming", "10%");
  EXPECT_EQ(s.next_position(), kPrompt);
  s.decode(later[0]);
  EXPECT_EQ(s.next_position(), kPrompt + 1);
  EXPECT_EQ(s.impl().cache.positions(0, 0).back(), kPrompt);
}

TEST_F(TinySession, EveryPromptOfAProcessIsCompressedAlike) {
  const auto other = random_tokens(kPrompt, kOptions.n_vocab, 99);
  auto kept = [&](const std::vector<int32_t>& tokens) {
    Session s = session();
    s.prefill(tokens);
    s.compress("behavior", "25%");
    return kept_positions(s);
  };
  const KeptSet first = kept(prompt);
  EXPECT_NE(kept(other), first);
  EXPECT_EQ(kept(prompt), first);
}

TEST_F(TinySession, ThreadsChangeNothing) {
  std::vector<float> expected;
  KeptSet kept;
  for (const int threads : {1, 2, 3}) {
    Session s = session(64, AttentionPath::ragged, threads);
    s.prefill(prompt);
    s.compress("behavior", "25%");
    const auto logits = s.evaluate(later);
    if (threads == 1) {
      expected = logits;
      kept = kept_positions(s);
    }
    EXPECT_EQ(kept_positions(s), kept) << threads;
    EXPECT_LE(worst_difference(logits, expected), 1e-4) << threads;
  }
}

TEST_F(TinySession, ForksAreIndependent) {
  Session base = session();
  base.prefill(prompt);
  const auto before = base.fork().evaluate(later);
  Session other = base.fork();
  other.compress("streaming", "10%");
  other.evaluate(later);
  EXPECT_EQ(worst_difference(base.evaluate(later), before), 0);
}

TEST_F(TinySession, TrimForgetsByPosition) {
  Session s = compressed("snapkv", "25%");
  const auto before = s.fork().evaluate(later);
  s.evaluate(later);
  s.trim(kPrompt);
  EXPECT_EQ(s.next_position(), kPrompt);
  EXPECT_EQ(worst_difference(s.evaluate(later), before), 0);
}

TEST_F(TinySession, ASecondCompressionGoesOnFromTheFirst) {
  Session s = compressed("behavior", "50%");
  s.prefill(later);
  const int64_t held = s.impl().cache.total_entries();
  const Receipt receipt = s.compress("behavior", "50%");
  EXPECT_EQ(receipt.entries_full, held);
  EXPECT_EQ(receipt.entries_kept, held / 2);
  EXPECT_EQ(s.next_position(), kPrompt + int32_t(later.size()));
}

/// A session that ran the same greedy tokens, its whole text observed.
Session greedy_twin(const Session& from, Session to, std::span<const int32_t> prompt, int count) {
  Session s = from.fork();
  const auto& seen = s.impl().seen.logits;
  int32_t token = argmax(std::span(seen).last(size_t(kOptions.n_vocab)));
  std::vector<int32_t> text(prompt.begin(), prompt.end());
  for (int i = 0; i < count; ++i) {
    text.push_back(token);
    token = argmax(s.decode(token));
  }
  to.prefill(text, {.prompt = true});
  return to;
}

/// Rows [rows, width] of the cache's newest entries of a head against the pass's.
void expect_own_entries(Session& twin, const Observation& pass, const ModelShape& shape) {
  KvCache& cache = twin.impl().cache;
  const auto m = int(pass.positions.size());
  std::vector<float> keys(size_t(m) * size_t(shape.head_dim)), values(keys.size());
  for (int r = 0; r < shape.n_rows(); ++r) {
    const auto il = size_t(r / shape.n_head_kv), h = size_t(r % shape.n_head_kv);
    cache.read_keys(int(il), int(h), kPrompt, keys);
    cache.read_values(int(il), int(h), kPrompt, values);
    EXPECT_LE(nmse(std::span(pass.own_keys[il]).subspan(h * keys.size(), keys.size()), keys), 1e-9);
    EXPECT_LE(nmse(std::span(pass.own_values[il]).subspan(h * keys.size(), keys.size()), values),
              1e-9);
  }
}

TEST_F(TinySession, TheLookaheadShowsTheGreedyTokens) {
  constexpr int kTokens = 6;
  Session s = session();
  s.prefill(prompt);
  s.impl().run_passes({.lookahead = kTokens}, {});
  const Observation& pass = s.impl().ahead->seen;
  ASSERT_EQ(pass.positions.size(), size_t(kTokens)) << "the tiny model ended";
  EXPECT_EQ(pass.positions.front(), kPrompt);
  Session twin = greedy_twin(s, session(), prompt, kTokens);
  const Observation expected = twin.impl().prompt->tail(kTokens);
  EXPECT_EQ(pass.positions, expected.positions);
  for (size_t il = 0; il < pass.query.size(); ++il) {
    EXPECT_LE(nmse(pass.query[il], expected.query[il]), 1e-9) << il;
  }
  expect_own_entries(twin, pass, model.shape());
}

TEST_F(TinySession, TheLookaheadLeavesTheCacheAndWhatFollowsAsTheyWere) {
  Session plain = session(), ahead = session();
  plain.prefill(prompt);
  ahead.prefill(prompt);
  ahead.impl().run_passes({.lookahead = 32}, {});
  EXPECT_EQ(ahead.next_position(), kPrompt);
  EXPECT_EQ(kept_positions(ahead), kept_positions(plain));
  EXPECT_EQ(worst_difference(ahead.evaluate(later), plain.evaluate(later)), 0);
}

TEST_F(TinySession, ForksShareALookaheadAndFewerTokensAreItsFirst) {
  Session s = session();
  s.prefill(prompt);
  s.impl().run_passes({.lookahead = 8}, {});
  const auto pass = s.impl().ahead;
  Session fork = s.fork();
  fork.impl().run_passes({.lookahead = 4}, {});
  EXPECT_EQ(fork.impl().ahead, pass);
  Session alone = session();
  alone.prefill(prompt);
  fork.compress("snapkv(source=lookahead,window=4)", "25%");
  alone.compress("snapkv(source=lookahead,window=4)", "25%");
  EXPECT_EQ(kept_positions(fork), kept_positions(alone));
  EXPECT_EQ(fork.impl().ahead, nullptr) << "of a cache that is no longer there";
  s.impl().run_passes({.lookahead = 9}, {});
  EXPECT_NE(s.impl().ahead, pass);
  s.decode(later[0]);
  EXPECT_EQ(s.impl().ahead, nullptr);
}

TEST_F(TinySession, TheReceiptCountsWhatAPassHolds) {
  Session s = session();
  s.prefill(prompt);
  const size_t tail = s.fork().compress("snapkv", "25%").scratch_peak;
  const Receipt receipt = s.compress("snapkv(source=lookahead)", "25%");
  const ModelShape& shape = model.shape();
  const size_t heads = size_t(shape.n_layer) * size_t(shape.n_head + 2 * shape.n_head_kv);
  EXPECT_GE(receipt.scratch_peak, tail + 32 * heads * size_t(shape.head_dim) * sizeof(float));
  EXPECT_GT(receipt.time_s.observe, 0);
}

TEST_F(TinySession, ProgressGoesOnFromAPassToTheScores) {
  Session s = session();
  s.prefill(prompt);
  std::vector<double> shares;
  s.compress("snapkv(source=lookahead)", "25%", [&](double share) {
    shares.push_back(share);
    return true;
  });
  EXPECT_TRUE(std::ranges::is_sorted(shares));
  EXPECT_EQ(shares.back(), 1);
}

TEST_F(TinySession, TheLookaheadTakesTheRoomThereIs) {
  for (const int room : {0, 5}) {
    Session s(model, {.threads = 2, .n_ctx = kPrompt + room});
    s.prefill(prompt);
    const auto compress = [&] { return s.compress("snapkv(source=lookahead)", "25%"); };
    if (room == 0) {
      expect_error(ErrorCode::memory, "the lookahead pass does not fit", compress);
      EXPECT_EQ(s.receipt().entries_kept, kPrompt * 6);
    } else {
      EXPECT_THAT(compress().notes, testing::Contains(testing::HasSubstr("shrank to the 5")));
    }
  }
}

TEST_F(TinySession, AnInterruptedLookaheadLeavesTheCacheAsItWas) {
  Session s = session();
  s.prefill(prompt);
  const auto before = s.fork().evaluate(later);
  int calls = 0;
  expect_error(ErrorCode::interrupted, "", [&] {
    s.compress("snapkv(source=lookahead)", "25%", [&](double) { return ++calls < 3; });
  });
  EXPECT_EQ(s.impl().ahead, nullptr);
  EXPECT_EQ(worst_difference(s.evaluate(later), before), 0);
}

template <typename Call>
ErrorCode code_of(Call call) {
  try {
    call();
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
    return e.code();
  }
  ADD_FAILURE() << "no error";
  return ErrorCode::internal;
}

TEST_F(TinySession, BadRequestsAreRefusedAndLoseNothing) {
  Session s = session();
  EXPECT_EQ(code_of([&] { s.prefill({}); }), ErrorCode::usage);
  EXPECT_EQ(code_of([&] { s.compress("snapkv", "10%"); }), ErrorCode::usage);
  s.prefill(prompt);
  const auto before = s.fork().evaluate(later);
  const auto too_long = random_tokens(900, kOptions.n_vocab, 1);
  EXPECT_EQ(code_of([&] { s.prefill(too_long); }), ErrorCode::memory);
  const std::vector<int32_t> foreign = {1, kOptions.n_vocab};
  EXPECT_EQ(code_of([&] { s.evaluate(foreign); }), ErrorCode::usage);
  EXPECT_EQ(code_of([&] { s.compress("snapkv", "0.1%"); }), ErrorCode::budget);
  EXPECT_EQ(code_of([&] { s.compress("snapvk", "10%"); }), ErrorCode::usage);
  EXPECT_EQ(code_of([&] { s.compress("snapkv", "0%"); }), ErrorCode::usage);
  EXPECT_EQ(code_of([&] { s.compress("behavior", "10%", [](double) { return false; }); }),
            ErrorCode::interrupted);
  EXPECT_EQ(worst_difference(s.evaluate(later), before), 0);
}

TEST_F(TinySession, StaleObservationsAreRefused) {
  Session s = session();
  s.prefill(prompt);
  s.decode(later[0]);
  for (const char* policy : {"snapkv", "snapkv(source=lookahead)"}) {
    EXPECT_EQ(code_of([&] { s.compress(policy, "25%"); }), ErrorCode::usage);
  }
  s.compress("streaming", "25%");  // reads no positions
  s.prefill(later);
  s.compress("snapkv", "25%");
}

TEST_F(TinySession, AnInterruptedPrefillKeepsWholeUbatches) {
  Session s = session(64);
  int calls = 0;
  EXPECT_EQ(code_of([&] { s.prefill(prompt, {.tail = 32}, [&](double) { return ++calls < 3; }); }),
            ErrorCode::interrupted);
  EXPECT_EQ(s.next_position(), 128);
  s.prefill(std::span(prompt).subspan(128));
  Session whole = session(64);
  whole.prefill(prompt);
  EXPECT_EQ(worst_difference(s.evaluate(later), whole.evaluate(later)), 0);
}

}  // namespace
}  // namespace pith::test
