#include "zeroshard/tools/gpu_check/bundle_folder.h"

#include <sys/stat.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"

namespace zeroshard::tools {

using Json = nlohmann::json;

ShellResult RunShell(const std::string& command) {
  FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  ShellResult result;
  std::array<char, 4096> part;
  for (size_t got; (got = fread(part.data(), 1, part.size(), pipe)) > 0;) result.said.append(part.data(), got);
  result.code = WEXITSTATUS(pclose(pipe));
  return result;
}

BundleFolder::BundleFolder()
    : path_(testing::TempDir() + "/" + testing::UnitTest::GetInstance()->current_test_info()->name()) {
  for (const char* folder : {"/payload/bin", "/path", "/golden"}) std::filesystem::create_directories(path_ + folder);
  std::ofstream(path_ + "/libc_version") << "2.0\n";
  Gpus(1);
}

void BundleFolder::Program(const std::string& name, const std::string& body) const {
  const std::string path = path_ + "/" + name;
  std::ofstream(path) << "#!/bin/sh\n" << body << "\n";
  chmod(path.c_str(), 0700);
}

void BundleFolder::Link(const std::string& name, const std::string& target) const {
  const std::string path = path_ + "/payload/bin/" + name;
  std::filesystem::remove(path);
  std::filesystem::create_symlink(std::filesystem::canonical(target), path);
}

void BundleFolder::Gpus(int count) const {
  Program("payload/bin/comm_bench", "echo '# in_process, " + std::to_string(count) + " ranks, registered memory'");
}

// Programs that are Google Test's would take this test's own variables for theirs.
ShellResult BundleFolder::Check(const std::string& phases, const std::string& environment) const {
  RunShell("tar -C " + path_ + "/payload -czf " + path_ + "/payload.tar.gz .");
  return RunShell(
      "env -u TEST_PREMATURE_EXIT_FILE -u TESTBRIDGE_TEST_ONLY -u GTEST_FILTER -u XML_OUTPUT_FILE -u GTEST_OUTPUT PATH=" +
      path_ + "/path:$PATH ZEROSHARD_GPU_BUNDLE=" + path_ + " " + environment + " tools/gpu_check.sh " + phases);
}

std::vector<Json> BundleFolder::Lines(int phase) const {
  std::vector<Json> lines;
  std::ifstream file(path_ + "/results/phase_" + std::to_string(phase) + ".jsonl");
  for (std::string line; std::getline(file, line);) {
    lines.push_back(Json::parse(line, nullptr, false));
    if (!lines.back().is_object()) ADD_FAILURE() << "no object: " << line;
  }
  return lines;
}

Json BundleFolder::Named(int phase, const std::string& check) const {
  const std::vector<Json> lines = Lines(phase);
  for (const Json& line : lines) {
    if (line.value("check", "") == check) return line;
  }
  ADD_FAILURE() << "no " << check << " in " << Json(lines).dump(1);
  return Json::object();
}

Json BundleFolder::End(int phase) const {
  const std::vector<Json> lines = Lines(phase);
  if (!lines.empty() && lines.back().contains("ended")) return lines.back();
  ADD_FAILURE() << "the phase has not ended: " << Json(lines).dump(1);
  return Json::object();
}

std::vector<std::string> BundleFolder::Names(int phase) const {
  std::vector<std::string> names;
  for (const Json& line : Lines(phase)) {
    if (line.contains("check")) names.push_back(line["check"]);
  }
  return names;
}

}  // namespace zeroshard::tools
