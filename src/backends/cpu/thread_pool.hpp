// A few threads that wait for work. Any number of callers may hand in work at once.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace tandem::cpu {

class ThreadPool {
 public:
  // One thread fewer: the caller works too. Throws std::system_error where the system has no more threads.
  explicit ThreadPool(int size);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(threads_.size()) + 1; }

  // Calls body(0) here and body(1) ... body(width - 1) in threads that are free before body(0) returns; returns when all have returned.
  // Bodies share the work by taking pieces of it until none is left, so it gets done however many of them are called. A body throws
  // nothing.
  template <class Body>
  void run(int width, const Body& body) {
    static_assert(std::is_nothrow_invocable_v<const Body&, int>);
    Job job{[](const void* b, int worker) noexcept { (*static_cast<const Body*>(b))(worker); }, &body, width, 1, 0, nullptr};
    run_job(job);
  }

 private:
  struct Job {  // lives on its caller's stack
    void (*call)(const void* body, int worker) noexcept;
    const void* body;
    int width;
    int started;
    int active;  // in pool threads
    Job* next;
  };

  void run_job(Job& job);
  void work();
  Job* find_open_job() const;
  void stop();

  std::mutex mutex_;
  std::condition_variable work_available_;
  std::condition_variable body_returned_;
  Job* jobs_ = nullptr;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tandem::cpu
