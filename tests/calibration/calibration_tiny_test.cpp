#include <gtest/gtest.h>

#include <cmath>

#include "calibration/sensitivity.h"
#include "eval/metrics.h"
#include "pith/calibration.hpp"
#include "session/session.h"
#include "support/expect_error.h"
#include "support/logits.h"
#include "support/synthetic.h"
#include "support/temp_file.h"
#include "support/tiny_model.h"

namespace pith::test {
namespace {

const TinyModelOptions kOptions{.n_layer = 2, .n_head = 4, .n_head_kv = 2, .head_dim = 16};

class TinyCalibration : public ::testing::Test {
 protected:
  Session prompted(int threads = 2) const {
    Session s(model,
              {.threads = threads, .n_ctx = 400, .k_type = KvType::f32, .v_type = KvType::f32});
    s.prefill(random_tokens(100, kOptions.n_vocab, 7));
    return s;
  }

  Calibration calibration() const {
    Calibration out = random_calibration(model.shape());
    out.model_hash = model_hash(model);
    Session s = prompted();
    out.sensitivity = head_sensitivity(s, last, 16, {});
    return out;
  }

  TinyModel tiny{kOptions};
  Model model = Model::load(tiny.path());
  std::vector<int32_t> last = random_tokens(64, kOptions.n_vocab, 8);
};

/// Mean KL for a change of one number of a head's output by `size` at one position a run, over
/// size^2 / 2, summed over the numbers: the trace of the exact second derivative.
double naive_sensitivity(Session& s, std::span<const int32_t> last, int layer, int head,
                         float size) {
  const ModelShape& shape = s.model().shape();
  const int d = shape.head_dim;
  const int32_t end = s.next_position();
  const auto before = s.evaluate(last);
  s.trim(end);
  const std::vector<int32_t> rows{int32_t(last.size()) - 1};
  const auto n_vocab = size_t(shape.n_vocab);
  double sum = 0;
  std::vector<float> logits;
  for (int j = 0; j < d; ++j) {
    std::vector<float> values(last.size() * size_t(shape.n_head * d), 0.0F);
    values[values.size() - size_t((shape.n_head - head) * d) + size_t(j)] = size;
    const HeadShift shift{.layer = layer, .values = values};
    s.impl().engine->run(s.impl().cache,
                         {.tokens = last, .logit_rows = rows, .observe_rows = {}, .shift = &shift},
                         logits, nullptr);
    s.trim(end);
    sum += compare_logits(std::span(before).last(n_vocab), logits, {}).kl * 2 / double(size * size);
  }
  return sum / d;
}

// Random signs estimate what the coordinates give exactly; both are means over the same positions.
TEST_F(TinyCalibration, SensitivityIsTheTraceOfTheSecondDerivative) {
  Session s = prompted(1);
  last.resize(12);
  const auto measured = head_sensitivity(s, last, 512, {});
  ASSERT_EQ(measured.size(), 8U);
  for (const int h : {0, 3, 6}) {
    double exact = 0;
    for (size_t n = 1; n <= last.size(); ++n) {
      exact += naive_sensitivity(s, std::span(last).first(n), h / 4, h % 4, 0.02F);
    }
    exact /= double(last.size());
    EXPECT_NEAR(double(measured[size_t(h)]) / exact, 1, 0.3) << h;
  }
}

TEST_F(TinyCalibration, MeasuringLeavesTheSessionAsItWasAndThreadsChangeNothing) {
  Session one = prompted(1), two = prompted(2);
  const auto after = prompted().evaluate(last);
  const auto a = head_sensitivity(one, last, 16, {}), b = head_sensitivity(two, last, 16, {});
  EXPECT_EQ(two.evaluate(last), after);
  for (size_t h = 0; h < a.size(); ++h) EXPECT_NEAR(double(a[h] / b[h]), 1, 1e-3);
}

TEST_F(TinyCalibration, EveryHeadIsMeasuredHoweverFewThePositions) {
  for (const size_t positions : {1, 3, 4, 5}) {
    Session s = prompted(1);
    for (const float x : head_sensitivity(s, std::span(last).first(positions), 1, {})) {
      EXPECT_TRUE(std::isfinite(x) && x > 0) << positions;
    }
  }
}

TEST_F(TinyCalibration, StopsWhenAsked) {
  Session s = prompted();
  expect_error(ErrorCode::interrupted, "",
               [&] { head_sensitivity(s, last, 16, [](double share) { return share < 0.5; }); });
  EXPECT_EQ(s.next_position(), 100);
}

TEST_F(TinyCalibration, AFileServesItsModelAndNoOther) {
  const TempFile file({}, ".json");
  const Calibration made = calibration();
  write_calibration(made, file.path());
  EXPECT_EQ(read_calibration(file.path(), model).sensitivity, made.sensitivity);
  TinyModelOptions options = kOptions;
  options.seed = 2;
  const TinyModel other(options);
  expect_error(ErrorCode::bad_file, "of another model",
               [&] { read_calibration(file.path(), Model::load(other.path())); });
}

TEST_F(TinyCalibration, BrokenAndMissingFilesAreNamed) {
  const TempFile file("{\"format\": 1", ".json");
  expect_error(ErrorCode::bad_file, file.path() + ": not a calibration",
               [&] { read_calibration(file.path(), model); });
  expect_error(ErrorCode::io, "/nowhere/x.json: cannot be read",
               [&] { read_calibration("/nowhere/x.json", model); });
}

TEST_F(TinyCalibration, AModelWithoutATokenizerCannotReadTheTexts) {
  expect_error(ErrorCode::unsupported, "no tokenizer", [&] { calibrate(model); });
}

class SessionCalibration : public TinyCalibration {
 protected:
  Receipt compressed(const std::string& policy, std::shared_ptr<const Calibration> used) const {
    Session s(model,
              {.threads = 1, .n_ctx = 400, .calibration = std::move(used), .notes = {"mine"}});
    s.prefill(random_tokens(200, kOptions.n_vocab, 7));
    return s.compress(policy, "30%");
  }
};

TEST_F(SessionCalibration, IsUsedAndTheReceiptSaysSo) {
  const auto used = std::make_shared<const Calibration>(calibration());
  const Receipt with = compressed("snapkv+shares", used), without = compressed("snapkv+shares", {});
  EXPECT_EQ(with.notes, (std::vector<std::string>{"mine", "calibration " + used->model_hash}));
  EXPECT_EQ(without.notes.back(), "no calibration: all heads are taken to be alike");
  EXPECT_NE(with.kept, without.kept);
  EXPECT_EQ(without.kept, compressed("snapkv+uniform", used).kept);
  EXPECT_EQ(compressed("snapkv+uniform", used).notes, (std::vector<std::string>{"mine"}));
}

TEST_F(SessionCalibration, OfAnotherModelIsRefused) {
  const auto other = std::make_shared<const Calibration>(random_calibration(model.shape()));
  expect_error(ErrorCode::usage, "the calibration is of another model",
               [&] { compressed("snapkv+shares", other); });
}

}  // namespace
}  // namespace pith::test
