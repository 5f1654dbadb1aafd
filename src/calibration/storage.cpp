#include "calibration/storage.h"

#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>

#include "eval/output_file.h"

namespace pith {

namespace {

using Json = nlohmann::ordered_json;

/// Head shares are written in full, so that their sum is off by rounding only.
constexpr double kSumTolerance = 1e-3;

[[noreturn]] void refuse(const std::string& why) { throw Error(ErrorCode::bad_file, why); }

/// [n_layer * width] as one list a layer.
Json by_layer(const std::vector<float>& values, int width) {
  Json out = Json::array();
  for (auto at = values.begin(); at != values.end(); at += width) {
    out.push_back(std::vector<float>(at, at + width));
  }
  return out;
}

std::vector<float> read_layers(const Json& json, int n_layer, int width, const std::string& what) {
  std::vector<float> out;
  for (const Json& layer : json) {
    const auto values = layer.get<std::vector<float>>();
    if (int(values.size()) != width) refuse(what + " has layers of the wrong length");
    out.insert(out.end(), values.begin(), values.end());
  }
  if (int(json.size()) != n_layer) refuse(what + " has the wrong number of layers");
  for (const float x : out) {
    if (!std::isfinite(x) || x < 0) refuse(what + " has a number that is none or negative");
  }
  return out;
}

HeadShares read_shares(const Json& json, const Calibration& calibration) {
  HeadShares shares{
      .kept = json.at("kept").get<double>(),
      .row = read_layers(json.at("heads"), calibration.n_layer, calibration.n_head_kv, "shares")};
  const double sum = std::accumulate(shares.row.begin(), shares.row.end(), 0.0);
  if (!(std::abs(sum - 1) < kSumTolerance)) refuse("shares do not sum to 1");
  return shares;
}

void check_table(const std::vector<HeadShares>& table) {
  if (table.empty()) refuse("there are no shares");
  double before = 1;
  for (const HeadShares& shares : table) {
    if (!(shares.kept > 0 && shares.kept < before)) refuse("kept shares do not fall from 1 to 0");
    before = shares.kept;
  }
}

Calibration read_fields(const Json& json) {
  if (const int format = json.at("format").get<int>(); format != kCalibrationFormat) {
    refuse("format " + std::to_string(format) + ", this pith reads " +
           std::to_string(kCalibrationFormat));
  }
  Calibration out;
  out.model_hash = json.at("model_hash").get<std::string>();
  out.n_layer = json.at("n_layer").get<int>();
  out.n_head = json.at("n_head").get<int>();
  out.n_head_kv = json.at("n_head_kv").get<int>();
  for (const Json& shares : json.at("shares")) out.shares.push_back(read_shares(shares, out));
  check_table(out.shares);
  out.sensitivity = read_layers(json.at("sensitivity"), out.n_layer, out.n_head, "sensitivity");
  return out;
}

}  // namespace

std::string calibration_text(const Calibration& calibration) {
  Json shares = Json::array();
  for (const HeadShares& s : calibration.shares) {
    shares.push_back({{"kept", s.kept}, {"heads", by_layer(s.row, calibration.n_head_kv)}});
  }
  const Json out{{"format", kCalibrationFormat},
                 {"model_hash", calibration.model_hash},
                 {"n_layer", calibration.n_layer},
                 {"n_head", calibration.n_head},
                 {"n_head_kv", calibration.n_head_kv},
                 {"shares", shares},
                 {"sensitivity", by_layer(calibration.sensitivity, calibration.n_head)}};
  return out.dump(1) + "\n";
}

Calibration parse_calibration(const std::string& text) {
  try {
    return read_fields(Json::parse(text));
  } catch (const Json::exception& error) {
    refuse(std::string("not a calibration: ") + error.what());
  }
}

void write_calibration(const Calibration& calibration, const std::string& path) {
  OutputFile(path).commit(calibration_text(calibration));
}

Calibration read_calibration(const std::string& path, const Model& model) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) throw Error(ErrorCode::io, path + ": cannot be read");
  try {
    Calibration out = parse_calibration(text);
    if (out.model_hash != model_hash(model)) {
      refuse("of another model (" + out.model_hash + ", not " + model_hash(model) + ")");
    }
    return out;
  } catch (const Error& error) {
    throw Error(error.code(), path + ": " + error.what());
  }
}

}  // namespace pith
