#pragma once

#include <array>
#include <string>

namespace pith {

/// What a model is calibrated on: prose, paragraphs followed by questions and their answers, and
/// facts hidden among filler. English, about a thousand tokens each, written for this purpose.
std::array<std::string, 3> calibration_texts();

}  // namespace pith
