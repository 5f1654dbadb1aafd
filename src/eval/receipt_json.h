#pragma once

#include <nlohmann/json_fwd.hpp>

#include "eval/machine.h"
#include "pith/pith.hpp"

namespace pith {

/// The receipt with the field names of the result formats; every layer is a global one.
nlohmann::ordered_json to_json(const Receipt& receipt);

/// {cpu, cores, os}
nlohmann::ordered_json to_json(const Machine& machine);

}  // namespace pith
