"""The C interface from Python by ctypes, for the benchmark: torch tensors in, launches on torch's current stream."""

import ctypes
import os
import pathlib

import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
DTYPES = {torch.float16: 1, torch.bfloat16: 2}


class TandemTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("shape", ctypes.c_int64 * 4), ("stride", ctypes.c_int64 * 4), ("dtype", ctypes.c_int32), ("reserved", ctypes.c_int32)]


class ForwardArgs(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("reserved", ctypes.c_uint32), ("q", TandemTensor), ("k", TandemTensor), ("v", TandemTensor), ("out", TandemTensor),
                ("lse", ctypes.c_void_p), ("lse_stride_batch", ctypes.c_int64), ("lse_stride_head", ctypes.c_int64), ("softmax_scale", ctypes.c_float),
                ("causal", ctypes.c_int32), ("window", ctypes.c_int32), ("batch_invariant", ctypes.c_int32), ("window_left", ctypes.c_int64),
                ("window_right", ctypes.c_int64), ("attention_chunk", ctypes.c_int64), ("softcap", ctypes.c_float), ("sm_margin", ctypes.c_int32),
                ("sinks", ctypes.c_void_p), ("cu_seqlens_q", ctypes.c_void_p), ("cu_seqlens_k", ctypes.c_void_p), ("seqused_q", ctypes.c_void_p),
                ("seqused_k", ctypes.c_void_p), ("num_sequences", ctypes.c_int64), ("max_seqlen_q", ctypes.c_int64), ("max_seqlen_k", ctypes.c_int64)]


class ContextOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("device", ctypes.c_int32), ("backend", ctypes.c_char_p), ("cache_dir", ctypes.c_char_p), ("threads", ctypes.c_int32),
                ("reserved", ctypes.c_int32)]


def describe(tensor: torch.Tensor) -> TandemTensor:
    return TandemTensor(tensor.data_ptr(), (ctypes.c_int64 * 4)(*tensor.shape), (ctypes.c_int64 * 4)(*tensor.stride()), DTYPES[tensor.dtype], 0)


class Tandem:
    """A context on the current CUDA device. Raises RuntimeError with the library's sentence."""

    def __init__(self, library: str | None = None):
        path = library or os.environ.get("TANDEM_LIBRARY") or str(ROOT / "build/lib/libtandem.so")
        self.api = ctypes.CDLL(path)
        self.api.tandem_last_error.restype = ctypes.c_char_p
        self.api.tandem_forward_workspace_size.restype = ctypes.c_size_t
        self.api.tandem_forward_plan_json.restype = ctypes.c_char_p
        self.context = ctypes.c_void_p()
        options = ContextOptions(ctypes.sizeof(ContextOptions), torch.cuda.current_device(), b"hopper", None, 0, 0)
        self.check(self.api.tandem_context_create(ctypes.byref(options), ctypes.byref(self.context)))

    def check(self, status: int) -> None:
        if status:
            raise RuntimeError(self.api.tandem_last_error().decode())

    def forward(self, q, k, v, causal=False, scale=None, spec=None, window=None, out=None, **features):
        """Prepares a call on (batch, seqlen, heads, dim) tensors. Returns (run, out, lse, plan JSON); run() launches on the current stream.
        `spec` changes fields of the chosen schedule. `window`: (left, right). `features`: other fields of tandem_forward_args; tensors are
        passed by address."""
        out = torch.empty(*q.shape[:3], v.shape[3], dtype=q.dtype, device=q.device) if out is None else out
        lse = torch.empty(q.shape[0], q.shape[2], q.shape[1], dtype=torch.float32, device=q.device)
        args = ForwardArgs(size=ctypes.sizeof(ForwardArgs), q=describe(q), k=describe(k), v=describe(v), out=describe(out), lse=lse.data_ptr(),
                           softmax_scale=q.shape[3] ** -0.5 if scale is None else scale, causal=int(causal))
        if window is not None:
            args.window, args.window_left, args.window_right = 1, *window
        for name, value in features.items():
            setattr(args, name, value.data_ptr() if isinstance(value, torch.Tensor) else value)
        if spec:
            os.environ["TANDEM_FORWARD_SPEC"] = spec
        plan = ctypes.c_void_p()
        try:
            self.check(self.api.tandem_forward_prepare(self.context, ctypes.byref(args), ctypes.byref(plan)))
        finally:
            os.environ.pop("TANDEM_FORWARD_SPEC", None)
        size = self.api.tandem_forward_workspace_size(plan)
        workspace = torch.empty(max(size, 16), dtype=torch.uint8, device=q.device)
        self.check(self.api.tandem_forward_workspace_init(plan, ctypes.c_void_p(workspace.data_ptr()), ctypes.c_size_t(workspace.numel()),
                                                          ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)))
        keep = (q, k, v, out, lse, workspace, args, features)

        def run():
            self.check(self.api.tandem_forward_run(plan, ctypes.byref(keep[6]), ctypes.c_void_p(keep[5].data_ptr()), ctypes.c_size_t(keep[5].numel()),
                                                   ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)))

        return run, out, lse, self.api.tandem_forward_plan_json(plan).decode()
