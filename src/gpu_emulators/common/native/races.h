// Races in global memory: who wrote and who read each byte of a launch, and whether anything orders two that meet there.
#pragma once

#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "regions.h"

constexpr u64 kPageBytes = 4096, kMostPages = 1 << 13;  // of 100 KiB each: what lies behind these is not looked at

// Who touched a byte last: the workgroup (from 1 on), the wave, and the interval between its barriers.
struct Mark {
  u32 group;
  u16 wave, interval;
};

struct Page {
  Mark writer[kPageBytes], reader[kPageBytes];  // of loads and stores
  Mark atomic[kPageBytes];
  bool is_atomic[kPageBytes];  // whether the last write was an atomic
};

// The history of a launch. A workgroup that meets a value of another one's atomic comes after that one.
class History {
 public:
  void begin(u32 group) { group_ = group, known_.clear(), known_.insert(group); }

  // Look at a read of `size` bytes, and keep it. Return the writer that nothing orders before it, or null.
  const Mark* read(const char* at, u32 size, Mark own) {
    const Mark* other = nullptr;
    for (u32 k = 0; k < size; k++) {
      Page* page = page_of(at + k);
      if (!page) return other;
      const u64 place = reinterpret_cast<u64>(at + k) % kPageBytes;
      if (!page->is_atomic[place] && races(page->writer[place], own)) other = &page->writer[place];
      page->reader[place] = own;
    }
    return other;
  }

  // The same for a store of `value`. A byte that stays as it was is not written.
  const Mark* store(const char* at, const void* value, u32 size, Mark own, bool* was_read) {
    const Mark* other = nullptr;
    for (u32 k = 0; k < size; k++) {
      Page* page = page_of(at + k);
      if (!page) break;
      if (at[k] == static_cast<const char*>(value)[k]) continue;
      const u64 place = reinterpret_cast<u64>(at + k) % kPageBytes;
      for (const Mark* one : {&page->reader[place], &page->atomic[place], &page->writer[place]}) {
        if (races(*one, own)) found_ = *one, other = &found_, *was_read = one == &page->reader[place];
      }
      page->writer[place] = own, page->is_atomic[place] = false;
    }
    return other;
  }

  // The same for an atomic, which only a store that nothing orders before it races with.
  const Mark* exchange(const char* at, u32 size, Mark own) {
    const Mark* other = nullptr;
    u32 earlier = 0;
    for (u32 k = 0; k < size; k++) {
      Page* page = page_of(at + k);
      if (!page) break;
      const u64 place = reinterpret_cast<u64>(at + k) % kPageBytes;
      if (races(page->writer[place], own)) found_ = page->writer[place], other = &found_;
      earlier = page->atomic[place].group;
      page->atomic[place] = own, page->is_atomic[place] = true;
    }
    if (earlier && earlier != group_) after_[group_].insert(earlier);
    return other;
  }

 private:
  bool races(const Mark& one, const Mark& own) {
    if (one.group == 0) return false;
    if (one.group == own.group) return one.wave != own.wave && one.interval == own.interval;
    return !comes_after(own.group, one.group);
  }

  bool comes_after(u32 group, u32 other) {
    if (known_.count(other)) return true;
    std::vector<u32> waiting{group};
    std::set<u32> seen{group};
    while (!waiting.empty()) {
      const u32 one = waiting.back();
      waiting.pop_back();
      for (u32 earlier : after_[one]) {
        if (earlier == other) return known_.insert(other), true;
        if (seen.insert(earlier).second) waiting.push_back(earlier);
      }
    }
    return false;
  }

  Page* page_of(const char* at) {
    const u64 number = reinterpret_cast<u64>(at) / kPageBytes;
    if (number == last_number_) return last_;
    auto place = pages_.find(number);
    if (place == pages_.end()) {
      if (pages_.size() >= kMostPages) return nullptr;
      place = pages_.emplace(number, std::unique_ptr<Page>(new Page())).first;
    }
    last_number_ = number;
    return last_ = place->second.get();
  }

  u32 group_ = 0;
  Mark found_{};
  std::set<u32> known_;  // workgroups that the present one is known to come after
  std::unordered_map<u32, std::set<u32>> after_;
  std::unordered_map<u64, std::unique_ptr<Page>> pages_;
  u64 last_number_ = ~0ull;
  Page* last_ = nullptr;
};
