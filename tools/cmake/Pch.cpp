// Source file of the precompiled header; see Pch.h.
