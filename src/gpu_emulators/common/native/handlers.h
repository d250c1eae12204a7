// What both emulators have: the handlers of opcodes by their names, and the findings of a launch.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "regions.h"

struct Wave;
struct Record;
using Handler = void(Wave&, const Record&);
using Findings = std::map<std::pair<u32, u32>, Finding>;  // by kind and record

static inline void add(Findings& found, const Finding& one) {
  found.insert({{one.kind, one.record}, one}).first->second.count++;
}

// Copy as many findings as there is room for.
static inline void give(const Findings& found, Finding* to, u32* room) {
  u32 count = 0;
  for (auto& [_, one] : found) {
    if (count < *room) to[count++] = one;
  }
  *room = count;
}

static inline std::map<std::string, Handler*>& handlers() {
  static std::map<std::string, Handler*> all;
  return all;
}

struct Registration {
  Registration(const std::string& name, Handler* handler) { handlers()[name] = handler; }
};

#define HANDLER(name)                                                             \
  static void name([[maybe_unused]] Wave& w, [[maybe_unused]] const Record& i);   \
  static const Registration registration_##name(#name, name);                     \
  static void name([[maybe_unused]] Wave& w, [[maybe_unused]] const Record& i)

extern "C" Handler* find_handler(const char* name) {
  auto place = handlers().find(name);
  return place == handlers().end() ? nullptr : place->second;
}
