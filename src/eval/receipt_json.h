#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "eval/machine.h"
#include "pith/pith.hpp"

namespace pith {

/// The receipt with the field names of the result formats; every layer is a global one.
nlohmann::ordered_json to_json(const Receipt& receipt);

/// {cpu, cores, os}
nlohmann::ordered_json to_json(const Machine& machine);

/// The text of a result, indented, with a newline at the end. Bytes that are not UTF-8, as paths
/// may hold, become U+FFFD.
std::string json_text(const nlohmann::ordered_json& json);

}  // namespace pith
