#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "policy/future.h"
#include "session/session.h"
#include "support/expect_error.h"
#include "support/logits.h"
#include "support/tiny_model.h"

namespace pith::test {
namespace {

constexpr int kLongest = 900;
const TinyModelOptions kOptions{.n_layer = 3, .n_head = 6, .n_head_kv = 2, .head_dim = 32};

/// All that a cache holds beside keys and values.
struct Kept {
  std::vector<std::vector<int32_t>> positions;
  std::vector<std::vector<float>> log_weights;
};

Kept kept(Session& s) {
  const KvCache& cache = s.impl().cache;
  Kept out;
  for (int il = 0; il < kOptions.n_layer; ++il) {
    for (int h = 0; h < kOptions.n_head_kv; ++h) {
      const auto positions = cache.positions(il, h);
      const auto weights = cache.log_weights(il, h);
      out.positions.emplace_back(positions.begin(), positions.end());
      out.log_weights.emplace_back(weights.begin(), weights.end());
    }
  }
  return out;
}

/// Weights are fitted by sums whose order goes by where the memory lies.
void expect_same(const Kept& a, const Kept& b) {
  EXPECT_EQ(a.positions, b.positions);
  for (size_t row = 0; row < a.log_weights.size(); ++row) {
    ASSERT_EQ(a.log_weights[row].size(), b.log_weights[row].size());
    for (size_t i = 0; i < a.log_weights[row].size(); ++i) {
      EXPECT_NEAR(a.log_weights[row][i], b.log_weights[row][i], 1e-4);
    }
  }
}

class FutureQueries : public testing::Test {
 protected:
  Session session(int n_ubatch = 512) const {
    return Session(model, {.threads = 1,
                           .n_ctx = 1000,
                           .n_ubatch = n_ubatch,
                           .k_type = KvType::f32,
                           .v_type = KvType::f32});
  }

  std::span<const int32_t> prompt(int count) const { return std::span(text).first(size_t(count)); }

  Session observed(const Needs& needs, int length, int n_ubatch = 512) const {
    Session s = session(n_ubatch);
    s.prefill(prompt(length), needs);
    return s;
  }

  /// The twin: it observes every query of the prompt and has all of them to choose from.
  Session twin(int length) const {
    Session s = observed({.tail = 64, .prompt = true}, length);
    s.impl().future = std::make_shared<FutureSample>(
        FutureSample{.seen = *s.impl().prompt, .first = 0, .end = length});
    return s;
  }

  TinyModel tiny{kOptions};
  Model model = Model::load(tiny.path());
  std::vector<int32_t> text = random_tokens(kLongest, kOptions.n_vocab, 7);
};

TEST_F(FutureQueries, AreThoseAmongAllQueries) {
  for (const int length : {1, 2, 9, 146, 147, 300, kLongest}) {
    Session s = observed({.tail = 64, .future = true}, length), all = twin(length);
    const Observation& few = s.impl().future->seen;
    const Observation& every = *all.impl().prompt;
    const auto asked = future_positions(length);
    const auto places = nearest_places(few.positions, asked);
    ASSERT_EQ(places.size(), asked.size());
    const size_t width = size_t(kOptions.n_head) * size_t(kOptions.head_dim);
    for (size_t j = 0; j < asked.size(); ++j) {
      ASSERT_EQ(few.positions[size_t(places[j])], asked[j]);
      for (size_t il = 0; il < size_t(kOptions.n_layer); ++il) {
        const auto a = std::span(few.query[il]).subspan(size_t(places[j]) * width, width);
        const auto b = std::span(every.query[il]).subspan(size_t(asked[j]) * width, width);
        ASSERT_TRUE(std::ranges::equal(a, b));
      }
    }
  }
}

TEST_F(FutureQueries, MakeThePlanThatAllQueriesMake) {
  for (const char* policy : {"kvzip(source=future)", "snapkv(source=future)+global",
                             "snapkv+weights", "behavior+omp(queries=future)", "pith"}) {
    for (const int length : {150, 700}) {
      Session s = observed(needs_of(policy), length), all = twin(length);
      s.compress(policy, "20%");
      all.compress(policy, "20%");
      expect_same(kept(s), kept(all));
    }
  }
}

TEST_F(FutureQueries, AreTheSamePositionsForEveryChunk) {
  const Needs needs{.future = true};
  const auto whole = observed(needs, 300).impl().future->seen.positions;
  for (const int n_ubatch : {1, 7, 64}) {
    EXPECT_EQ(observed(needs, 300, n_ubatch).impl().future->seen.positions, whole);
  }
}

TEST_F(FutureQueries, AreNoMoreForALongerPrompt) {
  const size_t width = size_t(kOptions.n_layer) * size_t(kOptions.n_head) *
                       size_t(kOptions.head_dim) * sizeof(float);
  for (const int length : {300, 500, kLongest}) {
    Session s = observed(needs_of("kvzip(source=future)"), length);
    const FutureSample& sample = *s.impl().future;
    EXPECT_LE(sample.seen.positions.size(), 384U);
    EXPECT_LE(s.impl().held_for({.future = true}), 384 * width);
    EXPECT_TRUE(s.impl().prompt->positions.empty());
    const size_t scratch = s.compress("kvzip(source=future)", "20%").scratch_peak;
    Session all = twin(length);
    const size_t held = all.impl().held_for({.future = true});
    EXPECT_EQ(all.compress("kvzip(source=future)", "20%").scratch_peak - held,
              scratch - sample.seen.positions.size() * width);
  }
}

/// Each of the positions that a prompt of this length asks for has one near it.
void expect_near(const FutureSample& sample, int length, int longest) {
  const auto asked = future_positions(length);
  const auto& seen = sample.seen.positions;
  EXPECT_TRUE(std::ranges::is_sorted(seen));
  EXPECT_LE(seen.size(), 384U);
  for (const int32_t position : asked) {
    const auto place = nearest_places(seen, {&position, 1}).at(0);
    EXPECT_LE(std::abs(seen[size_t(place)] - position), std::max(1, longest / 256)) << position;
  }
}

TEST_F(FutureQueries, OfAPromptReadInPartsAreNearThoseAskedFor) {
  for (const int part : {1, 37, 400}) {
    Session s = session();
    for (int at = 0; at < kLongest; at += part) {
      s.prefill(prompt(kLongest).subspan(size_t(at), size_t(std::min(part, kLongest - at))),
                {.tail = 32, .future = true});
    }
    expect_near(*s.impl().future, kLongest, kLongest);
    EXPECT_EQ(s.compress("snapkv+weights", "20%").entries_kept, kLongest * 6 / 5);
  }
}

TEST_F(FutureQueries, OfATrimmedPromptAreNearThoseAskedFor) {
  for (const int length : {890, 836, 500, 100}) {
    Session s = observed({.tail = 32, .future = true}, kLongest);
    Session fork = s.fork();
    s.trim(length);
    EXPECT_EQ(s.impl().future->end, length);
    expect_near(*s.impl().future, length, kLongest);
    EXPECT_GT(s.compress("kvzip(source=future)", "20%").entries_kept, 0);
    EXPECT_EQ(fork.impl().future->end, kLongest);
    s = fork.fork();
    s.trim(length);
    s.prefill(prompt(kLongest).subspan(size_t(length)), {.future = true});
    expect_near(*s.impl().future, kLongest, kLongest);
  }
}

TEST_F(FutureQueries, OfPartOfThePromptAreRefused) {
  Session s = session();
  s.prefill(prompt(100));
  const auto compress = [&] { s.compress("kvzip(source=future)", "25%"); };
  expect_error(ErrorCode::usage, "kvzip reads the queries of the whole prompt, and 0 of 100",
               compress);
  s.prefill(std::span(text).subspan(100, 50), {.future = true});
  expect_error(ErrorCode::usage, "and 50 of 150", compress);
  s.trim(50);
  expect_error(ErrorCode::usage, "and 0 of 50", compress);
  s.trim(0);
  s.prefill(prompt(100), {.future = true});
  s.decode(text[0]);
  expect_error(ErrorCode::usage, "and 100 of 101", compress);
  s.trim(100);
  compress();
}

TEST_F(FutureQueries, AnInterruptedPrefillGoesOn) {
  Session s = session(64);
  int calls = 0;
  const Needs needs{.tail = 32, .future = true};
  expect_error(ErrorCode::interrupted, "",
               [&] { s.prefill(prompt(300), needs, [&](double) { return ++calls < 3; }); });
  EXPECT_EQ(s.impl().future->end, 128);
  s.prefill(prompt(300).subspan(128), needs);
  Session whole = observed(needs, 300, 64);
  s.compress("kvzip(source=future)", "25%");
  whole.compress("kvzip(source=future)", "25%");
  expect_same(kept(s), kept(whole));  // the positions were those of the whole from the beginning
}

}  // namespace
}  // namespace pith::test
