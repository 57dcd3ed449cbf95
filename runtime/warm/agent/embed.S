/* The agent as data of the runtime's binary (agent.h), and its Python as data of the agent. There are two lists
 * of texts, each of which ends with an empty one, and a text. Probe and builder need the first list, only the
 * builder needs the second, and only the probe needs the text. The Makefile selects the agent or its Python, and
 * defines where the files are. */
#ifdef RESUME
    .section .rodata
    .hidden common_source, resume_source, probe_source
    .globl common_source, resume_source, probe_source
common_source:
    .incbin PACKAGES
    .byte 0
    .incbin CHANGES
    .byte 0
    .incbin HIDDEN
    .byte 0, 0
resume_source:
    .incbin PLACE
    .byte 0
    .incbin RESUME
    .byte 0, 0
probe_source:
    .incbin PROBE
    .byte 0
#else
    .section .rodata.agent, "a", @progbits
    .globl agent_start, agent_end, agent_identity, agent_bootstrap
    .balign 4096
agent_start:
    .incbin AGENT
agent_end:
/* A plan points to these, and so needs them in the container's process. */
    .section .rodata.bootstrap, "a", @progbits
agent_identity:
    .incbin IDENTITY
    .byte 0
agent_bootstrap:
    .incbin BOOTSTRAP
    .byte 0
#endif
    .section .note.GNU-stack, "", @progbits
