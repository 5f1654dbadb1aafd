#include "support/tool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>

#include "support/temp_file.h"

namespace pith::test {
namespace {

std::string tool_path() {
  const char* named = std::getenv("PITH_BINARY");
  if (named != nullptr) return named;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  return (folder.parent_path() / "pith").string();
}

}  // namespace

ToolResult run_tool(const std::string& arguments, const std::string& input) {
  const std::string tool = tool_path();
  ToolResult result;
  if (!std::filesystem::exists(tool)) {
    ADD_FAILURE() << "no tool at " << tool << "; build the target pith_tool";
    return result;
  }
  const TempFile in(input, ".in"), out({}, ".out"), err({}, ".err");
  // Redirections come first, so that one in the arguments takes their place.
  const std::string command = "'" + tool + "' <'" + in.path() + "' >'" + out.path() + "' 2>'" +
                              err.path() + "' " + arguments;
  const int status = std::system(command.c_str());
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.out = read_file(out.path());
  result.err = read_file(err.path());
  return result;
}

}  // namespace pith::test
