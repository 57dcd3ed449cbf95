/* The agent and its Python as data of the runtime's binary (agent.h). The Makefile defines where the files are. */
    .section .rodata.agent, "a", @progbits
    .globl agent_start, agent_end, agent_file_end, agent_identity, agent_bootstrap
    .balign 4096
agent_start:
    .incbin AGENT
agent_end:
    .incbin TEXTS
agent_file_end:
/* A plan points to these, and so needs them in the container's process. */
    .section .rodata.bootstrap, "a", @progbits
agent_identity:
    .incbin IDENTITY
    .byte 0
agent_bootstrap:
    .incbin START
    .byte 0
    .section .note.GNU-stack, "", @progbits
