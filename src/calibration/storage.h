#pragma once

#include <string>

#include "pith/calibration.hpp"

namespace pith {

/// Format of the JSON; another one is refused.
inline constexpr int kCalibrationFormat = 1;

/// {"format", "model_hash", "n_layer", "n_head", "n_head_kv", "shares": [{"kept", "heads":
/// [n_layer][n_head_kv]}], "sensitivity": [n_layer][n_head]}
std::string calibration_text(const Calibration& calibration);

/// Throws Error(bad_file) for what calibration_text() would not write.
Calibration parse_calibration(const std::string& text);

}  // namespace pith
