// A bundle as gpu_bundle.sh makes it, in a folder of the test's own, of programs that the test names: for tests of gpu_check.sh.
//
// Example:
//   BundleFolder bundle;
//   bundle.Program("payload/bin/device_properties", "echo '{}'");
//   EXPECT_EQ(bundle.Check("5").code, 0);
//   EXPECT_EQ(bundle.Named(5, "device_properties_0")["passed"], true);
#pragma once

#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace zeroshard::tools {

struct ShellResult {
  int code;
  std::string said;  // standard output and error
};

ShellResult RunShell(const std::string& command);

class BundleFolder {
 public:
  // With a comm_bench that sees one GPU.
  BundleFolder();

  const std::string& path() const { return path_; }

  // A program of sh; NAME: payload/bin/... of the bundle's own, path/... of the machine's.
  void Program(const std::string& name, const std::string& body) const;
  // The bundle's program bin/NAME is the file `target` of the runfiles.
  void Link(const std::string& name, const std::string& target) const;
  // A comm_bench that answers as the true one does where there are so many GPUs.
  void Gpus(int count) const;

  // gpu_check.sh of so many phases ("1 4"); `environment`: "NAME=VALUE ...".
  ShellResult Check(const std::string& phases, const std::string& environment = "") const;

  // The lines of a phase; each is JSON, or the test fails.
  std::vector<nlohmann::json> Lines(int phase) const;
  // A check's line; the test fails where there is none.
  nlohmann::json Named(int phase, const std::string& check) const;
  // The last line: how the phase ended.
  nlohmann::json End(int phase) const;
  // All checks, in their order.
  std::vector<std::string> Names(int phase) const;

 private:
  const std::string path_;
};

}  // namespace zeroshard::tools
