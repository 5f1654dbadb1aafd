#pragma once

#include <string>

namespace pith::test {

struct ToolResult {
  int exit_code = -1;
  std::string out, err;
};

/// Runs the built `pith` with `arguments` as a shell would read them: the one that the environment
/// variable PITH_BINARY names, else that of the tests' own build folder. `input` is its standard
/// input. Fails the running test where there is none.
ToolResult run_tool(const std::string& arguments, const std::string& input = {});

}  // namespace pith::test
