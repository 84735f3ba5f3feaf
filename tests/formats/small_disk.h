// A small file system for a test that fills it, in a child process.
#pragma once

#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "scratch_folder.h"

namespace plimsoll {

// Gives this process its own mount namespace: directly for root, else as root of a user namespace.
inline bool own_mounts() {
  const uid_t user = getuid();
  const gid_t group = getgid();
  if (unshare(CLONE_NEWNS) == 0) return true;
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  const auto say = [](const char* path, const std::string& text) { std::ofstream(path) << text; };
  say("/proc/self/setgroups", "deny");
  say("/proc/self/uid_map", "0 " + std::to_string(user) + " 1");
  say("/proc/self/gid_map", "0 " + std::to_string(group) + " 1");
  return true;
}

// Must be called in a child process. False if the system does not permit it.
inline bool mount_small(const std::filesystem::path& folder, const char* options) {
  return own_mounts() && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("tmpfs", folder.c_str(), "tmpfs", 0, options) == 0;
}

}  // namespace plimsoll
