#include "calibration/storage.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/expect_error.h"
#include "support/synthetic.h"

namespace pith::test {

namespace {

using Json = nlohmann::ordered_json;

Calibration some_calibration() { return random_calibration(small_shape(3, 2, 3)); }

TEST(CalibrationFile, ComesBackAsItWas) {
  const Calibration before = some_calibration();
  const Calibration after = parse_calibration(calibration_text(before));
  EXPECT_EQ(after.model_hash, before.model_hash);
  EXPECT_EQ(after.n_head, 6);
  EXPECT_EQ(after.sensitivity, before.sensitivity);
  ASSERT_EQ(after.shares.size(), before.shares.size());
  for (size_t s = 0; s < after.shares.size(); ++s) {
    EXPECT_EQ(after.shares[s].kept, before.shares[s].kept);
    EXPECT_EQ(after.shares[s].row, before.shares[s].row);
  }
}

TEST(CalibrationFile, NoPartOfItIsTakenForTheWhole) {
  const std::string text = calibration_text(some_calibration());
  const size_t last = text.rfind('}');
  for (size_t size = 0; size <= last; ++size) {
    expect_error(ErrorCode::bad_file, "not a calibration",
                 [&] { parse_calibration(text.substr(0, size)); });
  }
}

void expect_refused(const std::string& part, const std::function<void(Json&)>& change) {
  Json json = Json::parse(calibration_text(some_calibration()));
  change(json);
  expect_error(ErrorCode::bad_file, part, [&] { parse_calibration(json.dump()); });
}

TEST(CalibrationFile, AnotherFormatIsRefused) {
  expect_refused("format 2, this pith reads 1", [](Json& j) { j["format"] = 2; });
  expect_refused("not a calibration", [](Json& j) { j.erase("format"); });
}

TEST(CalibrationFile, WhatDoesNotFitTheModelsShapeIsRefused) {
  expect_refused("wrong number of layers", [](Json& j) { j["n_layer"] = 2; });
  expect_refused("wrong length", [](Json& j) { j["n_head"] = 7; });
  expect_refused("wrong length", [](Json& j) { j["shares"][1]["heads"][0].push_back(0.5); });
  expect_refused("wrong number of layers", [](Json& j) { j["sensitivity"] = Json::array(); });
}

TEST(CalibrationFile, NumbersThatMeanNothingAreRefused) {
  expect_refused("negative", [](Json& j) { j["sensitivity"][0][0] = -1; });
  expect_refused("negative", [](Json& j) { j["sensitivity"][0][0] = 1e300; });
  expect_refused("not a calibration", [](Json& j) { j["sensitivity"][0][0] = nullptr; });
  expect_refused("do not sum to 1", [](Json& j) { j["shares"][0]["heads"][0][0] = 7; });
  expect_refused("there are no shares", [](Json& j) { j["shares"] = Json::array(); });
  expect_refused("do not fall", [](Json& j) { j["shares"][2]["kept"] = 0.3; });
  expect_refused("do not fall", [](Json& j) { j["shares"][0]["kept"] = 1; });
}

}  // namespace

}  // namespace pith::test
